"""What bounds a connection, and what is counted of them: plain numbers, handed in by the configuration."""
cimport cython

from smg._fast.deadlines cimport Deadlines


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
        for one in (self.header_read, self.idle, self.body_stall, self.linger, self.request, self.first_byte,
                    self.pool_idle):
            one.close()


@cython.final
cdef class Counts:
    """Plain counters, read when the metrics are scraped."""
