from smg._fast.exchange cimport Reply
from smg._fast.head cimport RequestHead
from smg._fast.limits cimport Counts, Limits


cdef class Front:
    cdef readonly Limits limits
    cdef readonly Counts counts
    cdef readonly set open
    cdef public bint draining
    cdef list _dirty                # connections with bytes of a stream to write
    cdef bint _flushing             # their flush is scheduled
    cdef dict _routes
    cdef frozenset _lent            # paths whose exchanges go through aiohttp
    cdef object _serve
    cdef object _refuse
    cdef object _make_fallback

    cdef void flush_later(self, Answering one) except *


cdef class Answering(Reply):
    cdef Front front
    cdef object transport
    cdef RequestHead head           # of the message that is answered
    cdef bytes _out                 # bytes of a stream that wait for the end of the loop's turn
    cdef list _more                 # what came after them in the same turn
    cdef bint _body_done            # the message's body has been read
    cdef bint _keep                 # the connection may serve another message
    cdef bint closed
    cdef bint _full                 # the transport holds bytes back: the client reads too slowly
    cdef object _peer               # the client's address, once it was asked for
    cdef bint _peer_known
    cdef object _told               # is called when the client has taken what was written
    cdef int _fd                    # of a plain socket; -1 when only the transport may write
    cdef int _socket                # its descriptor, only to ask whether the client is there

    cdef bytes _answer_head(self, int status, bytes reason, bytes lines, long long length)
    cdef void _flush_now(self) except *
    cdef void _send(self, bytes data) except *
    cdef void _finished(self) except *
    cdef bint is_busy(self) noexcept
    cdef void close_if_idle(self) except *
    cdef void cut(self) except *
    cdef void _skip_body(self) noexcept
    cdef void _taken(self) except *
    cdef void _take(self, transport) except *
    cdef bint _is_left(self) noexcept
