cdef struct Member:
    Py_ssize_t key         # of the opening quote
    Py_ssize_t key_end     # behind the closing quote
    Py_ssize_t value
    Py_ssize_t value_end
    bint escaped           # the key is written with escapes


cdef class Members:
    cdef readonly bytes text
    cdef readonly Py_ssize_t start     # of the opening brace
    cdef readonly Py_ssize_t end       # behind the closing brace
    cdef Member* _list
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room

    cdef int _add(self, const Member* member) noexcept nogil
    cdef bint _is_named(self, Py_ssize_t index, bytes name) except -1
    cdef Py_ssize_t _find(self, bytes name) except -2
