"""A client's connection: heads, bodies, keep-alive and pipelining, and the hand-over to aiohttp.

Every message's framing is read here, also of those that aiohttp answers: it is fed one message at a
time, so the position in the stream is exact and the connection returns to the fast path by itself.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcpy

from smg._fast.chunks cimport STEP_BAD, STEP_DATA, STEP_END, ChunkReader, Step
from smg._fast.deadlines cimport Deadlines
from smg._fast.exchange cimport (
    BODY_ABORTED, BODY_COMPLETE, BODY_MALFORMED, BODY_STALLED, BODY_TOO_LARGE, Exchange,
)
from smg._fast.front cimport Front
from smg._fast.head cimport RequestHead, head_end, may_become_head, parse_request
from smg._fast.inplace cimport Receiving

from smg._fast.head import HeadError

cdef enum:
    _MAX_HEAD = 65536
    _MAX_AHEAD = 65536       # bytes of later messages that are kept while one is being answered
    _IN_PLACE = 65536        # a body with more than this to come is received into its final buffer


# What aiohttp is asked; it would answer any other method in words of its own.
cdef frozenset _METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE"))


@cython.final
cdef class Ingress(Receiving):
    """See `IngressState`; one exchange, or one message of aiohttp's, at a time."""

    def __init__(self, Front front):
        self.front = front
        self.takes_chunks = True

    # ---- reading

    cdef void _advance(self) except *:
        """Consume what was received, as far as the state allows."""
        cdef bint moved = True
        if self._advancing:
            return
        self._advancing = True
        while moved and self._rest is not None:
            if self._at >= PyBytes_GET_SIZE(self._rest):
                self._rest = None
                self._at = 0
                break
            if self.state == INGRESS_HEAD:
                # No further answer for a client that has not taken the last one.
                moved = not self._full and self._take_head()
            elif self.state == INGRESS_COLLECT or self.state == INGRESS_PIPE or self.state == INGRESS_SLOW:
                moved = not self._body_done and (
                    self._take_chunked() if self.head.chunked else self._take_body())
            elif self.state == INGRESS_TUNNEL:
                data, self._rest = self._rest[self._at:], None
                self._at = 0
                self.fallback.data_received(data)
            elif self.state == INGRESS_LINGER or self.state == INGRESS_CLOSED:
                self._rest = None
                self._at = 0
            else:
                moved = False
        self._advancing = False
        if self._rest is not None and not self._paused and (self.state != INGRESS_HEAD or self._full) \
                and PyBytes_GET_SIZE(self._rest) - self._at > _MAX_AHEAD:
            self._paused = True
            self.transport.pause_reading()
            if self.state == INGRESS_UNREAD or self.state == INGRESS_RUNNING:
                self.front.limits.look.arm(self)                 # the end of what is not read is not told

    cdef bint _take_head(self) except -1:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self._rest) - self._at, end
        cdef const char* text = PyBytes_AS_STRING(self._rest) + self._at
        cdef RequestHead head
        if text[0] == 13 and not self._scanned:                  # RFC 9112 2.2: an empty line before the request
            if size == 1:
                return False
            if text[1] != 10:
                self._refused(400, "Malformed request line")
                return False
            self._at += 2
            return True
        end = head_end(text, size, self._scanned)
        if end == 0 or end > _MAX_HEAD:
            if size > _MAX_HEAD:
                if memchr(text, 10, _MAX_HEAD) == NULL:
                    self._refused(414, "The request target is too long")
                else:
                    self._refused(431, "The request head is too large")
            elif not may_become_head(self._rest, self._at, self._scanned):
                self._refused(400, "Malformed request head")
            elif not self._head_timed:
                self._head_timed = True
                self.front.limits.header_read.arm(self)
            self._scanned = size
            return False
        self._scanned = 0
        self._head_timed = False
        try:
            head = parse_request(text, end)
        except HeadError as error:
            self._refused(error.status, str(error) if text[:4] != b"PRI " else "")
            return False
        self._at += end
        self.disarm()
        self._begin(head)
        return True

    cdef void _begin(self, RequestHead head) except *:
        cdef Front front = self.front
        cdef Exchange x
        self.head = head
        self.takes_chunks = head.minor == 1
        self._keep = head.keep_alive and head.minor == 1 and not front.draining
        self._have = 0
        self._left = head.content_length if head.content_length > 0 else 0
        self._body_done = not head.chunked and self._left == 0
        self._answer_done = False
        if head.chunked:
            if self.chunks is None:
                self.chunks = ChunkReader()
            self.chunks.reset()
        # An Upgrade on these routes is ignored (RFC 9110 7.8): clients that would like HTTP/2 send one.
        route = front._routes.get(head.path) if head.method == b"POST" else None
        if route is not None:
            front.counts.fast += 1
            self.state = INGRESS_UNREAD
            x = Exchange(head, route, self, front.limits)
            self.exchange = x
            x.run(front._serve(x))
            return
        if head.method not in _METHODS:
            self._refused(501, "The request method is not supported")
            return
        self._flush_now()
        front.counts.slow += 1
        self._lent = head.method == b"POST" and head.path in front._lent
        self.state = INGRESS_UNREAD if self._lent else INGRESS_TUNNEL if head.upgrade else INGRESS_SLOW
        if self.fallback is None:
            self.fallback = front._make_fallback(self)
            self.fallback.connection_made(self.transport)
        if not self._body_done and self.state == INGRESS_SLOW:
            front.limits.body_stall.arm(self)
        self.fallback.head_received(head)

    cdef bint _take_body(self) except -1:
        """Consume bytes of a body of known length."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self._rest) - self._at
        cdef IngressState state = self.state
        cdef bytes data
        if size > self._left:
            size = <Py_ssize_t>self._left
        data = self._rest if size == PyBytes_GET_SIZE(self._rest) else self._rest[self._at:self._at + size]
        self._at += size
        self._left -= size
        self._body_piece(data)
        if self._left == 0 and self.state == state:              # else it was refused
            self._body_complete()
        return True

    cdef bint _take_chunked(self) except -1:
        """Consume chunks; the payload of one read goes on as one piece, however many chunks it came in."""
        cdef const char* text = PyBytes_AS_STRING(self._rest)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self._rest), begin = self._at, used = 0
        cdef Step got
        cdef bint came = False
        cdef bytes payload = None
        cdef IngressState state = self.state
        cdef bint as_it_is = state == INGRESS_SLOW and not self._lent
        self.chunks.position = self._at
        while True:
            got = self.chunks.step(text, size)
            if got != STEP_DATA:
                break
            came = True
            if not as_it_is:
                if payload is None:
                    payload = PyBytes_FromStringAndSize(NULL, size - self.chunks.piece)
                memcpy(PyBytes_AS_STRING(payload) + used, text + self.chunks.piece, self.chunks.piece_size)
                used += self.chunks.piece_size
        self._at = self.chunks.position
        if used:
            self._body_piece(payload[:used])
            if self.state != state:                              # it was too large
                return True
        if got == STEP_BAD:
            if state == INGRESS_SLOW and self.exchange is None:
                self._refused_slow()
            else:
                self.front.counts.refused += 1
                self._body_failed(BODY_MALFORMED)
            return False
        if as_it_is:
            if came:
                self.front.limits.body_stall.arm(self)
            self.fallback.data_received(text[begin:self._at])
        elif state == INGRESS_SLOW and got == STEP_END:
            # What is lent has no extensions and trailers: there may be no two opinions of its framing.
            self.fallback.data_received(b"0\r\n\r\n")
        if got == STEP_END:
            self._body_complete()
        return True

    cdef void _body_piece(self, bytes data) except *:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        self._have += size
        # Of a message that is aiohttp's, only an exchange has asked for no more than so much.
        if self._have > self._limit and (self.state != INGRESS_SLOW or self.exchange is not None):
            self._body_failed(BODY_TOO_LARGE)
            return
        self.front.limits.body_stall.arm(self)
        if self.state == INGRESS_SLOW:
            self.fallback.data_received(data if not self.head.chunked else b"%x\r\n%b\r\n" % (size, data))
        elif self.state == INGRESS_PIPE:
            if self.exchange.upstream is not None:
                self.exchange.upstream.body_piece(data)
        elif self.exchange.sink is not None:
            try:
                self.exchange.sink(data)
            except ValueError:
                self._body_failed(BODY_MALFORMED)
        elif self._pieces is None:
            self._pieces = [data]
        else:
            self._pieces.append(data)

    cdef void _body_complete(self) except *:
        cdef Exchange x = self.exchange
        cdef bytes body
        self._body_done = True
        self.disarm()
        if self.state == INGRESS_SLOW:
            if self._answer_done:
                self._next_message()
            elif self._lent:
                self.state = INGRESS_RUNNING
            return
        if self.state == INGRESS_PIPE:
            self.state = INGRESS_RUNNING
            self._read_again()                                   # or it would not be seen that the client leaves
            if x.upstream is not None:
                x.received = BODY_COMPLETE
                x.upstream.body_end(self.head.chunked)
            return
        if self._pieces is None:
            body = b""
        elif len(self._pieces) == 1:
            body = self._pieces[0]
        else:
            body = b"".join(self._pieces)
        self._pieces = None
        self._body_arrived(body)

    cdef void _body_arrived(self, bytes body) except *:
        self.state = INGRESS_RUNNING
        self.exchange.body_arrived(body, BODY_COMPLETE)

    cdef void _body_failed(self, int how) except *:
        """The body will not be read to its end: the connection closes after the answer."""
        self._keep = False
        self._pieces = None
        self.disarm()
        if self.state == INGRESS_COLLECT or self.state == INGRESS_PIPE or self.state == INGRESS_SLOW:
            self.state = INGRESS_UNREAD
        if self.exchange is not None:
            self.exchange.body_failed(how)

    # ---- what the listener asks for

    cdef bint is_busy(self) noexcept:
        return self.state != INGRESS_HEAD

    cdef void close_if_idle(self) except *:
        if self.state == INGRESS_HEAD and self._rest is None:
            self._close_gently(False)

    # ---- what the exchange asks for

    cdef void collect(self, Exchange x, long long limit) except *:
        if self.head.content_length > limit:
            self._body_failed(BODY_TOO_LARGE)
            return
        self._limit = limit
        if self._body_done:
            self.state = INGRESS_RUNNING
            x.body_arrived(b"", BODY_COMPLETE)
            return
        self.state = INGRESS_COLLECT
        if self._rest is not None and self._at < PyBytes_GET_SIZE(self._rest):
            if self.head.chunked:
                self._take_chunked()
            else:
                self._take_body()
            if self.state != INGRESS_COLLECT:
                self._read_again()                               # or it would not be seen that the client leaves
                return
        elif self.head.expects_continue:
            self.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.front.limits.body_stall.arm(self)
        if self._left > _IN_PLACE and not self.head.chunked and x.sink is None:
            self._receive_in_place()
        else:
            self._read_again()

    cdef void pipe(self, Exchange x, long long limit) except *:
        if self.head.content_length > limit:
            self._body_failed(BODY_TOO_LARGE)
            return
        self._limit = limit
        self.state = INGRESS_PIPE
        if self._body_done:
            self._body_complete()
            return
        if self.head.expects_continue and (self._rest is None or self._at >= PyBytes_GET_SIZE(self._rest)):
            self.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.front.limits.body_stall.arm(self)
        self._read_again()
        self._advance()

    cdef void pause_body(self) noexcept:
        if (self.state == INGRESS_PIPE or self.state == INGRESS_SLOW) and not self._paused:
            self._paused = True
            self.disarm()                                        # it is the worker that is slow
            self.transport.pause_reading()

    cdef void resume_body(self) noexcept:
        if (self.state == INGRESS_PIPE or self.state == INGRESS_SLOW) and self._paused:
            self._paused = False
            self.front.limits.body_stall.arm(self)
            self.transport.resume_reading()

    # ---- a message that is lent: aiohttp has it, and its exchange a reply of its own

    @property
    def lends(self):
        """Does aiohttp have the message so that an exchange is begun for it?"""
        return self._lent and self.state == INGRESS_UNREAD

    cdef void lend_body(self) except *:
        """Let aiohttp have the body, as it comes."""
        if self.head.expects_continue and (self._rest is None or self._at >= PyBytes_GET_SIZE(self._rest)):
            self.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._flush_now()
        self.state = INGRESS_SLOW
        self.front.limits.body_stall.arm(self)
        self._read_again()
        self._advance()

    # ---- the end of a message

    cdef void abort(self) noexcept:
        if self.state != INGRESS_CLOSED:
            self.state = INGRESS_CLOSED
            self.closed = True
            self.disarm()
            if self.exchange is not None:
                self.exchange.reply = None
                self.exchange = None
            self.transport.abort()

    cdef void cut(self) except *:
        """End the connection, and its exchange as if the client had left."""
        cdef Exchange x = self.exchange
        self.abort()
        if x is not None:
            self.front.counts.client_left += 1
            x.on_client_left()

    cdef void _skip_body(self) noexcept:
        if self.state == INGRESS_UNREAD and self._keep and not self.head.chunked and self._rest is not None \
                and PyBytes_GET_SIZE(self._rest) - self._at >= self._left:
            if self._lent:
                self.fallback.data_received(self._rest[self._at:self._at + <Py_ssize_t>self._left])
            self._at += <Py_ssize_t>self._left
            self._left = 0
            self._body_done = True

    cdef void _finished(self) except *:
        """The answer has been written."""
        if self.exchange is not None:
            self.exchange.reply = None
            self.exchange = None
        if self.state == INGRESS_CLOSED:
            return
        self._answer_done = True
        if not self._keep or not self._body_done:
            self._close_gently(not self._body_done)
        else:
            self._next_message()

    cdef void _next_message(self) except *:
        cdef bint at_once = self._advancing or self.state == INGRESS_SLOW
        if not self._keep or (self.front.draining and self._rest is None):
            self._close_gently(False)
            return
        self.state = INGRESS_HEAD
        self._unsent = 0
        self.head = None
        self.takes_chunks = True
        self.front.limits.idle.arm(self)
        if at_once or self._rest is None or self._at >= PyBytes_GET_SIZE(self._rest):
            self._read_on()
        else:
            # Not at once: the exchange that has answered has yet to return what the next one may need.
            self.front.limits.loop.call_soon(self._read_on)

    def _read_on(self):
        if not self.closed:
            self._read_again()
            self._advance()

    cdef void _read_again(self) except *:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    cdef void _close_gently(self, bint unread) except *:
        """Close when the client has had the chance to read the answer: closing over unread bytes
        would reset the connection and take the answer away."""
        self._flush_now()
        self._rest = None
        self._at = 0
        self.disarm()
        if not unread or not self.transport.can_write_eof():
            self.closed = True
            self.transport.close()
            if self.transport.get_write_buffer_size() > 0:
                self.state = INGRESS_LINGER                      # a client that takes nothing is cut
                self.front.limits.idle.arm(self)
            else:
                self.state = INGRESS_CLOSED
            return
        self.state = INGRESS_LINGER
        self.front.limits.linger.arm(self)
        self._give_up_in_place()
        self._read_again()
        self.transport.write_eof()

    cdef void _refused(self, int status, str message) except *:
        """These bytes are no request: answer and close, and read nothing more of them."""
        self.front.counts.refused += 1
        self._keep = False
        self._body_done = False
        self.takes_chunks = True
        reason, lines, body = self.front._refuse(status, message)
        if reason:
            self.raw(self._answer_head(status, reason, lines, len(body)) + <bytes>body)
            self._close_gently(True)
        else:
            self.abort()

    cdef void _refused_slow(self) except *:
        """The body of a message that aiohttp has is not in the chunked coding."""
        if self._lent and not self._answer_done:                 # its exchange has answered: that is on its way
            self.state = INGRESS_UNREAD
            self._keep = False
            return
        fallback, self.fallback = self.fallback, None
        if self._answer_done:
            self.front.counts.refused += 1
            self._close_gently(True)
        else:
            self._refused(400, "The request body is not in the chunked coding")
        fallback.connection_lost(None)

    def fallback_done(self, bint keep):
        """aiohttp has written its answer to the message it was given. Unless `keep` it closes next, but for
        True: then it is the ingress that closes."""
        if self._lent:
            return self._lent_done(keep)
        if not keep:
            self._keep = False
            if self._body_done:
                self.front.limits.idle.arm(self)                 # a client that takes nothing is cut
        elif self.state == INGRESS_TUNNEL:
            self._body_done = True
            self._close_gently(False)
        elif self.state == INGRESS_SLOW:
            self._answer_done = True
            if self._body_done:
                self._next_message()
        return False

    cdef bint _lent_done(self, bint keep) except -1:
        if self.state == INGRESS_CLOSED:
            return True
        self._answer_done = True
        if self._body_done and keep:
            self._next_message()
        elif self._keep and keep and not self.head.expects_continue:
            self.lend_body()                                     # it was answered without its exchange
        else:
            self._close_gently(not self._body_done)
            return True
        return False

    cdef bint _client_reads(self) except -1:
        """Is an answer still on its way, and has the client taken some of it since it was last asked?"""
        cdef Py_ssize_t unsent = self.transport.get_write_buffer_size()
        cdef bint reads = 0 < unsent != self._unsent
        self._unsent = unsent
        return reads

    cdef void on_deadline(self, Deadlines which) noexcept:
        if which is self.front.limits.look:
            if not self._paused:
                return
            if self._is_left():
                self.cut()
            else:
                which.arm(self)
        elif which is self.front.limits.body_stall and (self.state != INGRESS_SLOW or self.exchange is not None):
            self._give_up_in_place()
            self._body_failed(BODY_STALLED)
        elif which is not self.front.limits.header_read and self._client_reads() and (
                self.state != INGRESS_SLOW or which is self.front.limits.idle):
            which.arm(self)
        else:
            self.abort()

    # ---- the transport's callbacks

    def connection_made(self, transport):
        self._take(transport)
        self.front.open.add(self)
        self.front.counts.connections += 1
        self.front.counts.accepted += 1
        self._head_timed = True
        self.front.limits.header_read.arm(self)

    def data_received(self, data):
        self._rest = data if self._rest is None else self._rest[self._at:] + data
        self._at = 0
        self._advance()

    def eof_received(self):
        if self.state == INGRESS_COLLECT or self.state == INGRESS_PIPE or (
                self.state == INGRESS_SLOW and self.exchange is not None):
            self._give_up_in_place()
            self._body_failed(BODY_ABORTED)
            return True
        return False

    def connection_lost(self, error):
        cdef Exchange x = self.exchange
        self.state = INGRESS_CLOSED
        self.closed = True
        self.exchange = None
        self._forget_body()
        self._rest = None
        self._out = None
        self._more = None
        self.disarm()
        self._full = False
        self._taken()
        self.front.open.discard(self)
        self.front.counts.connections -= 1
        if x is not None:
            self.front.counts.client_left += 1
            x.on_client_left()
        if self.fallback is not None:
            self.fallback.connection_lost(error)
            self.fallback = None

    def pause_writing(self):
        self._full = True
        if self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.pause()
        if self.fallback is not None:
            self.fallback.pause_writing()

    def resume_writing(self):
        self._full = False
        self._taken()
        if self.exchange is not None and self.exchange.upstream is not None:
            self.exchange.upstream.resume()
        if self.fallback is not None:
            self.fallback.resume_writing()
        if self.state == INGRESS_HEAD:
            self._read_on()
