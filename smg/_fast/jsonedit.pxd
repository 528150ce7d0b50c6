from cpython.mem cimport PyMem_RawFree

cdef enum:
    SHORT = 24             # bytes that an edit holds itself
    LARGE = 1 << 16        # bytes from which the interpreter is let go while they are read or copied


cdef struct Cut:
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t order
    Py_ssize_t size
    const char* data       # what stands there instead; NULL when `held` has it
    char held[SHORT]


cdef class Edits:
    cdef readonly bytes text
    cdef Cut* _list
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef list _kept

    cdef int add(self, Py_ssize_t start, Py_ssize_t end, const char* data, Py_ssize_t size) noexcept nogil
    cdef void keep(self, bytes data) except *
    cdef int _grow(self) noexcept nogil
    cdef int _make_room(self) except -1


cdef inline void free_memory(void* memory, Py_ssize_t size) noexcept:
    """Free it, without the interpreter when it is so large that the system takes its time."""
    if size < LARGE:
        PyMem_RawFree(memory)
    else:
        with nogil:
            PyMem_RawFree(memory)
