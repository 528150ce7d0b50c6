"""Frees large texts without the interpreter: to give much memory back takes the system milliseconds."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* one)


cdef extern from "<sys/mman.h>" nogil:
    enum:
        MADV_DONTNEED
    int madvise(void* start, size_t size, int advice)

cdef enum:
    _PAGE = 1 << 16        # as large as pages are anywhere


def free_texts(list texts not None):
    """Free the texts that nobody else holds, and empty the list. For a thread: the loop goes on meanwhile."""
    cdef bytes text
    cdef uintptr_t start, end
    while texts:
        text = texts.pop()
        start = (<uintptr_t>PyBytes_AS_STRING(text) + _PAGE - 1) & ~<uintptr_t>(_PAGE - 1)
        end = (<uintptr_t>PyBytes_AS_STRING(text) + PyBytes_GET_SIZE(text)) & ~<uintptr_t>(_PAGE - 1)
        # The only reference is ours: what its inner pages hold can be forgotten before the object is freed.
        if Py_REFCNT(<PyObject*>text) == 1 and end > start:
            with nogil:
                madvise(<void*>start, end - start, MADV_DONTNEED)
        text = None
