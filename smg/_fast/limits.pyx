"""What bounds a connection, and what is counted of them: plain numbers, handed in by the configuration."""
cimport cython

from smg._fast.deadlines cimport Deadlines

cdef double _LOOK_S = 1.0


@cython.final
cdef class Limits:
    """Timeouts in seconds (0 is off), sizes in bytes, and the frames that end a broken stream."""

    def __init__(self, loop, *, double header_read_s, double idle_s, double body_stall_s, double linger_s,
                 double request_s, double first_byte_s, double pool_idle_s, double keepalive_s, double between_s,
                 long long max_payload_bytes, bytes broken_frame, bytes timeout_frame):
        self.loop = loop
        self.header_read = Deadlines(loop, header_read_s)
        self.idle = Deadlines(loop, idle_s)
        self.body_stall = Deadlines(loop, body_stall_s)
        self.linger = Deadlines(loop, linger_s)
        self.look = Deadlines(loop, _LOOK_S)
        self.request = Deadlines(loop, request_s)
        self.first_byte = Deadlines(loop, first_byte_s)
        self.pool_idle = Deadlines(loop, pool_idle_s)
        self.keepalive_s = keepalive_s
        self.between_s = between_s
        self.max_payload_bytes = max_payload_bytes
        self.broken_frame = broken_frame
        self.timeout_frame = timeout_frame

    def close(self):
        """Stop every timer."""
        for one in (self.header_read, self.idle, self.body_stall, self.linger, self.look, self.request,
                    self.first_byte, self.pool_idle):
            one.close()


@cython.final
cdef class Spread:
    """A histogram of times whose bounds double from one to the next, from 1 ms to 65.536 s."""

    @staticmethod
    def bounds():
        """Upper bounds of the buckets, in seconds."""
        return tuple([0.001 * 2**i for i in range(SPREAD_BOUNDS)])

    cdef void note(self, double seconds) noexcept:
        cdef double bound = 0.001
        cdef int at = 0
        while seconds > bound and at < SPREAD_BOUNDS:
            bound *= 2
            at += 1
        self._counts[at] += 1
        self._sum += seconds

    def add(self, double seconds):
        self.note(seconds)

    def row(self):
        """Counts by bucket, the last one open, and the sum of the times."""
        cdef int i
        row = [self._counts[i] for i in range(SPREAD_BOUNDS + 1)]
        row.append(self._sum)
        return row


@cython.final
cdef class Counts:
    """Plain counters, read when the metrics are scraped."""

    def __cinit__(self):
        self.gaps = Spread()
        self.connecting = Spread()
