from smg._fast.chunks cimport ChunkReader
from smg._fast.exchange cimport Exchange, Reply
from smg._fast.head cimport RequestHead
from smg._fast.limits cimport Counts, Limits


cdef enum IngressState:
    INGRESS_HEAD         # between two messages, or in a head
    INGRESS_UNREAD       # a head was read; nobody has asked for its body
    INGRESS_COLLECT      # gathering the body
    INGRESS_PIPE         # passing the body on to a worker
    INGRESS_RUNNING      # the body is complete, the answer is not
    INGRESS_SLOW         # aiohttp has the message
    INGRESS_TUNNEL       # aiohttp has the connection, to its end
    INGRESS_LINGER       # the last answer was sent; what still comes is dropped
    INGRESS_CLOSED


cdef class Front:
    cdef readonly Limits limits
    cdef readonly Counts counts
    cdef readonly set open
    cdef public bint draining
    cdef list _dirty                # connections with bytes of a stream to write
    cdef bint _flushing             # their flush is scheduled
    cdef dict _routes
    cdef object _serve
    cdef object _refuse
    cdef object _make_fallback

    cdef void _flush_later(self, Ingress one) except *


cdef class Ingress(Reply):
    cdef Front front
    cdef object transport
    cdef object fallback            # aiohttp's protocol, once it was needed
    cdef Exchange exchange
    cdef RequestHead head
    cdef ChunkReader chunks
    cdef IngressState state
    cdef bytes _rest                # received, not yet consumed from `_at` on
    cdef Py_ssize_t _at
    cdef Py_ssize_t _scanned        # how much of a partial head was searched for its end
    cdef bytes _out                 # bytes of a stream that wait for the end of the loop's turn
    cdef list _more                 # what came after them in the same turn
    cdef list _pieces
    cdef bytes _body                # a large body, filled in place by the receiver
    cdef long long _have            # bytes of the body so far
    cdef long long _left            # bytes of the body that must still come; unknown when chunked
    cdef long long _limit
    cdef bint _body_done
    cdef bint _answer_done
    cdef bint _keep                 # the connection may serve another message
    cdef bint _head_timed
    cdef bint _paused               # reading
    cdef bint _full                 # the transport takes no more for now: the client reads too slowly
    cdef Py_ssize_t _unsent         # bytes the client had not taken when the last deadline passed
    cdef bint _advancing

    cdef void _advance(self) except *
    cdef void _flush_now(self) except *
    cdef bint _take_head(self) except -1
    cdef void _begin(self, RequestHead head) except *
    cdef bint _take_body(self) except -1
    cdef bint _take_chunked(self) except -1
    cdef void _body_piece(self, bytes data) except *
    cdef void _body_complete(self) except *
    cdef void _body_failed(self, int how) except *
    cdef void _receive_in_place(self) except *
    cdef void _received_in_place(self, Py_ssize_t size) except *
    cdef void _refused(self, int status, str message) except *
    cdef void _cut(self) except *
    cdef bint _client_reads(self) except -1
    cdef void _finished(self) except *
    cdef void _next_message(self) except *
    cdef void _close_gently(self, bint unread) except *
    cdef bytes _answer_head(self, int status, bytes reason, bytes lines, long long length)
