cdef class Timed:
    cdef Timed _earlier
    cdef Timed _later
    cdef Deadlines _list
    cdef double _due

    cdef void on_deadline(self, Deadlines which) noexcept
    cdef void disarm(self) noexcept


cdef class Deadlines:
    cdef readonly double seconds
    cdef readonly Py_ssize_t armed
    cdef Timed _head
    cdef Timed _tail
    cdef object _loop
    cdef object _timer

    cdef void arm(self, Timed node) noexcept
    cdef void _unlink(self, Timed node) noexcept
    cdef void _wake_after(self, double delay) noexcept
