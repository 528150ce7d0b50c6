cdef class Budget:
    cdef readonly double tokens
    cdef readonly double requests
    cdef double _most_tokens
    cdef double _most_requests
    cdef double _at

    cdef void refill(self, double now) noexcept
    cdef double find_wait(self, double now, double tokens) noexcept
