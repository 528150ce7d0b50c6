"""How answers are written to a client's connection, and what all client connections share."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from smg._fast.exchange cimport Reply
from smg._fast.limits cimport Counts, Limits

cdef extern from "<sys/socket.h>" nogil:
    ssize_t send(int fd, const void* data, size_t size, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef extern from *:
    """
    #include <poll.h>
    #ifndef POLLRDHUP
    #define POLLRDHUP 0
    #endif
    /* Has the peer ended the connection, even if bytes of its are still unread? */
    static int smg_is_left(int fd) {
        struct pollfd one = {fd, POLLRDHUP, 0};
        return fd >= 0 && poll(&one, 1, 0) > 0;
    }
    """
    bint smg_is_left(int fd) noexcept

cdef enum:
    _JOINED = 16384          # up to here one write of head and body together is the cheaper one


@cython.final
cdef class Front:
    """What all client connections share. `routes` maps the paths of the data plane to what
    `Exchange.route` shall be; `serve` gives the coroutine that carries an exchange; `refuse`
    renders (reason, header lines, body) for a protocol error, or an empty reason: close without a
    word; `make_fallback` gives an aiohttp protocol. `lent`: paths of the data plane whose messages go to
    aiohttp, which begins their exchanges; it is given the body when it is asked for."""

    def __init__(self, Limits limits, Counts counts, *, dict routes, serve, refuse, make_fallback,
                 frozenset lent=frozenset()):
        self.limits = limits
        self.counts = counts
        self.open = set()
        self._dirty = []
        self._routes = routes
        self._serve = serve
        self._refuse = refuse
        self._make_fallback = make_fallback
        self._lent = lent

    @property
    def busy(self):
        """How many connections are in the middle of a message."""
        cdef int count = 0
        for one in self.open:
            if (<Answering>one).is_busy():
                count += 1
        return count

    cdef void flush_later(self, Answering one) except *:
        """Write the connection's bytes when every worker connection that is readable now has been read.

        Writes in a row wake a client process once; a write after each read would wake it every time,
        which costs more than all the rest of an event.
        """
        self._dirty.append(one)
        if not self._flushing:
            self._flushing = True
            self.limits.loop.call_soon(self._flush)

    def _flush(self):
        cdef list dirty = self._dirty
        self._dirty = []
        self._flushing = False
        for one in dirty:
            (<Answering>one)._flush_now()

    def close_idle(self):
        """Close the connections that are between two messages; the others close after theirs."""
        self.draining = True
        for one in list(self.open):
            (<Answering>one).close_if_idle()

    def abort_all(self):
        """Cut every connection."""
        for one in list(self.open):
            (<Answering>one).cut()


cdef class Answering(Reply):
    """The writing half of a client's connection; the reading half is its subclass."""

    cdef bytes _answer_head(self, int status, bytes reason, bytes lines, long long length):
        """`length` is the body's, or -1: chunked, or up to the end of the connection."""
        cdef bytes framing
        if not self._body_done:
            self._skip_body()
        if not self._body_done:
            self._keep = False
        if status == 204 or status == 304:
            framing = b""
        elif length >= 0:
            framing = b"content-length: %d\r\n" % length
        elif self.takes_chunks:
            framing = b"transfer-encoding: chunked\r\n"
        else:
            framing = b""
        return b"".join((b"HTTP/1.1 %d " % status, reason, b"\r\n", lines, framing,
                         b"\r\n" if self._keep else b"connection: close\r\n\r\n"))

    cdef void answer(self, int status, bytes reason, bytes lines, bytes body) except *:
        cdef bytes head = self._answer_head(status, reason, lines, PyBytes_GET_SIZE(body))
        self._flush_now()
        if PyBytes_GET_SIZE(body) <= _JOINED:
            self._send(head + body)
        else:
            self.transport.writelines((head, body))
        self._finished()

    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *:
        if length >= 0:
            self.raw(self._answer_head(status, reason, lines, length))
            self.takes_chunks = False                            # the body's bytes are the payload's
        else:
            self.raw(self._answer_head(status, reason, lines, length))
            if status == 204 or status == 304:                   # they have no body, not even an empty one
                self.takes_chunks = False

    cdef void chunk(self, bytes data) except *:
        """Payload; goes out as one chunk."""
        if self.takes_chunks:
            data = b"%x\r\n%b\r\n" % (PyBytes_GET_SIZE(data), data)
        self.raw(data)

    cdef void raw(self, bytes data) except *:
        """Bytes framed as the answer's head says."""
        if self._out is not None:
            if self._more is None:
                self._more = [data]
            else:
                self._more.append(data)
        elif not self.closed:
            self._out = data
            self.front.flush_later(self)

    cdef void _flush_now(self) except *:
        cdef bytes data = self._out
        if data is not None:
            self._out = None
            if self._more is not None:
                self._more.insert(0, data)
                data = b"".join(self._more)
                self._more = None
            if not self.closed:
                self._send(data)

    cdef void _send(self, bytes data) except *:
        """Straight to the socket when the transport holds nothing back: it saves a stream's event a
        twentieth of its cost. What the socket does not take at once is the transport's to send."""
        cdef Py_ssize_t sent = 0
        if self._fd >= 0 and not self._full:
            sent = send(self._fd, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), MSG_DONTWAIT | MSG_NOSIGNAL)
            if sent == PyBytes_GET_SIZE(data):
                return
            if sent > 0:
                data = data[sent:]
        self.transport.write(data)

    cdef void end(self, bint terminated) except *:
        if self.takes_chunks and not terminated:
            self.raw(b"0\r\n\r\n")
        self._flush_now()
        if not self.takes_chunks and self.head.minor == 0:
            self._keep = False
        self._finished()

    cdef void _finished(self) except *:
        """The answer has been written."""

    cdef void _skip_body(self) noexcept:
        """Nobody will read the request's body: be done with it if it is all here."""

    # ---- what the exchange asks for

    cdef object peer(self):
        if not self._peer_known:                                 # asking the system costs more than all the rest
            self._peer_known = True
            name = self.transport.get_extra_info("peername")
            self._peer = name[0] if type(name) is tuple else None
        return self._peer

    cdef bint tell_when_taken(self, told) except -1:
        if self._full:
            self._taken()                                        # an earlier answer's: there are no two at a time
            self._told = told
        return self._full

    cdef void _taken(self) except *:
        """The client has what was written, or will never have it."""
        if self._told is not None:
            told, self._told = self._told, None
            told()

    # ---- the connection

    cdef void _take(self, transport) except *:
        self.transport = transport
        self._fd = self._socket = -1
        plain = transport.get_extra_info("socket")
        if plain is not None:
            self._socket = plain.fileno()
            if transport.get_extra_info("sslcontext") is None:
                self._fd = self._socket
                # So that `pause_writing` tells of every byte that the transport keeps.
                transport.set_write_buffer_limits(high=0)

    cdef bint _is_left(self) noexcept:
        """Has the client ended the connection, maybe behind bytes that are not read yet?"""
        return smg_is_left(self._socket)

    # ---- what the listener asks for

    cdef bint is_busy(self) noexcept:
        """Is it in the middle of a message?"""
        return False

    cdef void close_if_idle(self) except *:
        """Close between two messages."""

    cdef void cut(self) except *:
        """End the connection, and its exchange as if the client had left."""
