from libc.stdint cimport uint16_t, uint64_t


cdef struct Point:
    uint64_t place
    uint16_t worker


cdef class Ring:
    cdef Point* _points
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef Py_ssize_t _sorted          # points from here on came since the last look-up
    cdef dict _urls

    cdef int _reserve(self, Py_ssize_t count) except -1
    cdef int _settle(self) except -1
    cdef Py_ssize_t _first_from(self, uint64_t place) noexcept
