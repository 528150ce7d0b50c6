"""What is left of a limit of tokens and requests a minute; both refill all the time, up to a minute's worth."""
cimport cython
from libc.math cimport INFINITY

cdef enum:
    _MINUTE_S = 60

cdef double _ROUNDING = 1e-6   # who comes back when it was told to is not sent away for the last bit of a number


@cython.final
cdef class Budget:
    """Holds `share` of a minute's `tokens` and `requests` at `now`, seconds of any clock; one that goes back adds
    nothing. `tokens` may be below zero, after answers that cost more than was guessed."""

    def __cinit__(self, double tokens, double requests, double now, double share):
        if not (tokens > 0 and requests > 0):
            raise ValueError("limits above zero are needed")
        self._most_tokens = tokens
        self._most_requests = requests
        self.tokens = tokens * share
        self.requests = requests * share
        self._at = now

    def take(self, double now, double tokens):
        """Pay one request and so many tokens if that can be paid; else the seconds until it can, or infinity."""
        cdef double wait_s = self.find_wait(now, tokens)
        if wait_s <= 0:
            self.tokens -= tokens
            self.requests -= 1
        return wait_s

    def wait_s(self, double now, double tokens):
        """Seconds until one request with so many tokens can be paid: 0 now, infinity never."""
        return self.find_wait(now, tokens)

    def give(self, double now, double tokens, double requests):
        """Put back, or take whatever is left when negative."""
        self.refill(now)
        self.tokens = min(self._most_tokens, self.tokens + tokens)
        self.requests = min(self._most_requests, self.requests + requests)

    def share(self, double now):
        """How full the emptier of the two is, 1 at most."""
        self.refill(now)
        return min(self.tokens / self._most_tokens, self.requests / self._most_requests)

    cdef void refill(self, double now) noexcept:
        cdef double minutes = (now - self._at) / _MINUTE_S
        if minutes > 0:
            self.tokens = min(self._most_tokens, self.tokens + minutes * self._most_tokens)
            self.requests = min(self._most_requests, self.requests + minutes * self._most_requests)
        self._at = now

    cdef double find_wait(self, double now, double tokens) noexcept:
        cdef double minutes
        self.refill(now)
        if tokens <= self.tokens + _ROUNDING and self.requests >= 1 - _ROUNDING:
            return 0.0
        if tokens > self._most_tokens:
            return INFINITY
        minutes = max((tokens - self.tokens) / self._most_tokens, (1 - self.requests) / self._most_requests)
        return minutes * _MINUTE_S
