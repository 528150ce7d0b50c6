from smg._fast.chunks cimport ChunkReader
from smg._fast.exchange cimport Exchange
from smg._fast.head cimport RequestHead
from smg._fast.inplace cimport Receiving


cdef enum IngressState:
    INGRESS_HEAD         # between two messages, or in a head
    INGRESS_UNREAD       # a head was read; nobody has asked for its body
    INGRESS_COLLECT      # gathering the body
    INGRESS_PIPE         # passing the body on to a worker
    INGRESS_RUNNING      # the body is complete, the answer is not
    INGRESS_SLOW         # aiohttp has the message, and gets the body
    INGRESS_TUNNEL       # aiohttp has the connection, to its end
    INGRESS_LINGER       # the last answer was sent; what still comes is dropped
    INGRESS_CLOSED


cdef class Ingress(Receiving):
    cdef object fallback            # aiohttp's protocol, once it was needed
    cdef Exchange exchange
    cdef bint _lent                 # aiohttp has the message, and its exchange asks for the body
    cdef ChunkReader chunks
    cdef IngressState state
    cdef bytes _rest                # received, not yet consumed from `_at` on
    cdef Py_ssize_t _at
    cdef Py_ssize_t _scanned        # how much of a partial head was searched for its end
    cdef long long _limit
    cdef bint _answer_done
    cdef bint _head_timed
    cdef Py_ssize_t _unsent         # bytes the client had not taken when the last deadline passed
    cdef bint _advancing

    cdef void _advance(self) except *
    cdef bint _take_head(self) except -1
    cdef void _begin(self, RequestHead head) except *
    cdef bint _take_body(self) except -1
    cdef bint _take_chunked(self) except -1
    cdef void _body_piece(self, bytes data) except *
    cdef void _body_complete(self) except *
    cdef void _body_failed(self, int how) except *
    cdef void _refused(self, int status, str message) except *
    cdef void _refused_slow(self) except *
    cdef bint _lent_done(self, bint keep) except -1
    cdef void lend_body(self) except *
    cdef bint _client_reads(self) except -1
    cdef void _next_message(self) except *
    cdef void _read_again(self) except *
    cdef void _close_gently(self, bint unread) except *
