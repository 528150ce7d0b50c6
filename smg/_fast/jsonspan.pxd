cdef struct Member:
    Py_ssize_t key         # of the opening quote
    Py_ssize_t key_end     # behind the closing quote
    Py_ssize_t value
    Py_ssize_t value_end
    bint escaped           # the key is written with escapes


cdef class Members:
    cdef readonly bytes text
    cdef Member* _list
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room

    cdef int _add(self, Member* member) except -1
    cdef Py_ssize_t _find(self, bytes name) except -2
