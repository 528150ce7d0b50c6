from libc.stdint cimport int16_t, uint64_t

from smg._fast.jsonshape cimport SLOTS
from smg._fast.jsonspan cimport Member, Members


cdef struct Mark:
    int kind               # one bit
    Py_ssize_t item        # index of the element of the outermost list it is in
    Py_ssize_t holder      # where its object begins
    Member member          # all zero for a mark of an object


cdef class Found(Members):
    cdef uint64_t _present
    cdef uint64_t _breached
    cdef uint64_t _marked
    cdef int16_t _places[SLOTS]
    cdef Mark* _marks
    cdef Py_ssize_t _mark_count
    cdef Py_ssize_t _mark_room
    cdef list _breaches

    cdef int add_mark(self, const Mark* mark) noexcept nogil
