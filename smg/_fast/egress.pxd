from smg._fast.chunks cimport ChunkReader
from smg._fast.deadlines cimport Deadlines
from smg._fast.exchange cimport Exchange, Upstream
from smg._fast.head cimport ResponseHead
from smg._fast.limits cimport Counts, Limits
from smg._fast.relay cimport Relay


cdef enum EgressState:
    EGRESS_IDLE          # in its pool, or fresh
    EGRESS_HEAD          # the request was sent, no complete head has come
    EGRESS_LENGTH        # in a body of known length
    EGRESS_CHUNKED       # in a chunked body
    EGRESS_UNTIL_CLOSE   # in a body that ends with the connection
    EGRESS_CLOSED


cdef class Pool:
    cdef readonly Limits limits
    cdef readonly Counts counts
    cdef readonly list idle
    cdef readonly bint closed
    cdef readonly Deadlines request    # an attempt
    cdef readonly Deadlines unused     # a connection that lies idle
    cdef readonly Py_ssize_t max_idle
    cdef readonly double heard_at      # when the worker last sent something, by the monotonic clock

    cdef bint has_room(self) noexcept
    cdef void put(self, Egress one) except *
    cdef void _end(self, Deadlines own, Deadlines general, Deadlines later) except *
    cdef void _count(self, Egress one) except *


cdef class Egress(Upstream):
    cdef Pool pool
    cdef object transport
    cdef Relay relay
    cdef Exchange exchange
    cdef ChunkReader chunks
    cdef EgressState state
    cdef bytes _partial            # of a head
    cdef ResponseHead _head
    cdef long long _left
    cdef bint _body_open           # the request's body is still being sent
    cdef object _source            # an iterator it comes from
    cdef bint _counted             # among the open worker connections

    cdef void _close(self) except *
    cdef void _hang_up(self) except *
    cdef void _pump(self) except *
    cdef void _fail(self, int outcome) except *
    cdef void _read(self, bytes data) except *
    cdef Py_ssize_t _take_head(self, bytes data, Py_ssize_t at) except -2
    cdef Py_ssize_t _take_chunks(self, bytes data, Py_ssize_t at) except -2
    cdef void _meter(self, const char* text, Py_ssize_t at, Py_ssize_t end) except *
    cdef void _complete(self, bytes data, Py_ssize_t at, bint terminated) except *
