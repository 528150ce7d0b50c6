from smg._fast.deadlines cimport Deadlines


cdef class Limits:
    cdef readonly Deadlines header_read       # ingress: a head must be complete
    cdef readonly Deadlines idle              # ingress: between two requests
    cdef readonly Deadlines body_stall        # ingress: between two pieces of a body
    cdef readonly Deadlines linger            # ingress: after the last answer, for the client to read it
    cdef readonly Deadlines look              # ingress: whether a client is there whose bytes are not read
    cdef readonly Deadlines request           # exchange: an attempt, or the receipt of the body
    cdef readonly Deadlines first_byte        # egress: from the request to the answer's first byte
    cdef readonly Deadlines pool_idle         # egress: unused in its pool
    cdef readonly double keepalive_s          # relay: silence of an event stream before a comment
    cdef readonly double between_s            # relay: silence of a worker before it counts as stalled
    cdef readonly long long max_payload_bytes
    cdef readonly bytes broken_frame          # what ends a stream that its worker broke
    cdef readonly bytes timeout_frame         # what ends a stream that took too long
    cdef readonly object loop


cdef enum:
    SPREAD_BOUNDS = 17


cdef class Spread:
    cdef long long _counts[SPREAD_BOUNDS + 1]
    cdef double _sum

    cdef void note(self, double seconds) noexcept


cdef class Counts:
    cdef public long long connections         # open client connections
    cdef public long long accepted            # client connections ever
    cdef public long long fast                # exchanges carried by the ingress
    cdef public long long slow                # exchanges handed to aiohttp
    cdef public long long refused             # heads and bodies that broke the protocol
    cdef public long long upstreams           # open worker connections
    cdef public long long connects            # worker connections ever made
    cdef public long long client_left         # exchanges whose client went away
    cdef readonly Spread gaps                 # between two pieces of a stream
    cdef readonly Spread connecting           # the making of worker connections
