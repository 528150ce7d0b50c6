"""A connection to a worker: one request at a time, the answer's framing, and whether it can be used again."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from smg._fast.chunks cimport STEP_DATA, STEP_END, STEP_MORE, ChunkReader, Step
from smg._fast.deadlines cimport Deadlines
from smg._fast.exchange cimport CUT, DIED, MALFORMED, Exchange, Upstream
from smg._fast.head cimport ResponseHead, head_end, parse_response
from smg._fast.limits cimport Counts, Limits
from smg._fast.relay cimport Relay

from smg._fast.head import HeadError

cdef enum:
    _MAX_HEAD = 65536
    _JOINED = 16384          # up to here one write of head and body together is the cheaper one
    _PIECE = 1 << 18         # of a large body: as much as the kernel may copy while the loop waits
    _MAX_IDLE = 4096


cdef Deadlines _of_length(seconds, Deadlines general, Deadlines now):
    """The deadlines of all if they are so long, else those of one worker, kept if they are."""
    if seconds is None or seconds == general.seconds:
        return general
    return now if seconds == now.seconds else Deadlines(general._loop, seconds)


@cython.final
cdef class Pool:
    """The idle connections of one worker, the most recently used first, and its timeouts."""

    def __init__(self, Limits limits, Counts counts):
        self.limits = limits
        self.counts = counts
        self.idle = []
        self.request = limits.request
        self.unused = limits.pool_idle
        self.max_idle = _MAX_IDLE

    def tune(self, max_idle, request_s, unused_s):
        """Give the worker limits of its own, None: those of all. What is under way keeps its time."""
        cdef Egress one
        cdef Deadlines request = self.request, unused = self.unused
        self.max_idle = _MAX_IDLE if max_idle is None else max_idle
        self.request = _of_length(request_s, self.limits.request, request)
        self.unused = _of_length(unused_s, self.limits.pool_idle, unused)
        while len(self.idle) > self.max_idle:
            one = self.idle.pop(0)
            one._close()
        if self.unused is not unused:
            for one in self.idle:
                self.unused.arm(one)
        self._end(request, self.limits.request, self.request)
        self._end(unused, self.limits.pool_idle, self.unused)

    cdef void _end(self, Deadlines own, Deadlines general, Deadlines later) except *:
        """Stop the timer of deadlines that were this worker's own; while something waits it runs on."""
        if own is not general and own is not later and own.armed == 0:
            own.close()

    def take(self):
        """An idle connection, or None: then make one."""
        cdef Egress one
        while self.idle:
            one = self.idle.pop()
            one.disarm()
            if one.state == EGRESS_IDLE:
                return one
        return None

    def make(self):
        """A protocol for a new connection."""
        return Egress(self)

    def put_back(self, Egress one):
        """Keep a connection that was made for an exchange which has no use for it any more."""
        if one.state == EGRESS_IDLE:
            self._count(one)
            if self.has_room():
                self.put(one)
            else:
                one._close()

    cdef void _count(self, Egress one) except *:
        # Not in connection_made: a cancelled connect may have got that far and is never lost.
        if not one._counted:
            one._counted = True
            self.counts.upstreams += 1
            self.counts.connects += 1

    cdef bint has_room(self) noexcept:
        return not self.closed and len(self.idle) < self.max_idle

    cdef void put(self, Egress one) except *:
        one.reused = True
        self.idle.append(one)
        self.unused.arm(one)

    def close(self):
        """Close the idle connections, and from now on every other as it becomes idle."""
        self.closed = True
        for one in list(self.idle):
            (<Egress>one)._close()
        self.idle.clear()
        self._end(self.request, self.limits.request, None)
        self._end(self.unused, self.limits.pool_idle, None)


def _pieces(bytes body):
    cdef Py_ssize_t at
    view = memoryview(body)
    for at in range(0, PyBytes_GET_SIZE(body), _PIECE):
        yield view[at:at + _PIECE]


@cython.final
cdef class Egress(Upstream):
    """States change only here: IDLE -> HEAD -> LENGTH, CHUNKED or UNTIL_CLOSE -> IDLE or CLOSED."""

    def __init__(self, Pool pool):
        self.pool = pool
        self.relay = Relay.__new__(Relay)
        self.relay.limits = pool.limits
        self.relay.gaps = pool.counts.gaps
        self.relay.upstream = self
        self.state = EGRESS_IDLE

    # ---- what the exchange asks for

    cdef void begin(self, Exchange x, bytes head, object body) except *:
        self.pool.request.arm(x)
        if self.state != EGRESS_IDLE:
            x.finish_attempt(DIED)
            return
        self.pool._count(self)
        self.state = EGRESS_HEAD
        self.exchange = x
        self.heard = False
        self._partial = None
        self._body_open = x.piped
        self.relay.attach(x)
        self.pool.limits.first_byte.arm(self)
        if body is None:
            self.transport.write(head)
        elif not isinstance(body, bytes):
            self._body_open = True
            self._source = body
            self.transport.write(head)
            self._pump()
        elif PyBytes_GET_SIZE(body) <= _JOINED:
            self.transport.write(head + <bytes>body)
        elif PyBytes_GET_SIZE(body) <= _PIECE:
            self.transport.writelines((head, body))
        else:
            self._body_open = True
            self._source = _pieces(body)
            self.transport.write(head)
            self._pump()

    cdef void _pump(self) except *:
        """Send what the source gives, until the transport is full."""
        while self._source is not None and not self.full and self.state != EGRESS_CLOSED:
            piece = next(self._source, None)
            if piece is None:
                self._source = None
                self._body_open = False
            else:
                self.transport.write(piece)

    cdef void body_piece(self, bytes data) except *:
        if self.state != EGRESS_CLOSED and self._body_open:
            if self.exchange is not None and self.exchange.head.chunked:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            self.transport.write(data)
            if self.full:                                       # maybe since before the body began
                self.pause_writing()

    cdef void body_end(self, bint chunked) except *:
        if self.state != EGRESS_CLOSED and self._body_open:
            self._body_open = False
            if chunked:
                self.transport.write(b"0\r\n\r\n")

    cdef void pause(self) noexcept:
        if not self.paused and self.state != EGRESS_CLOSED:
            self.paused = True
            self.transport.pause_reading()

    cdef void resume(self) noexcept:
        if self.paused:
            self.paused = False
            if self.state != EGRESS_CLOSED:
                self.transport.resume_reading()

    cdef void drop(self) noexcept:
        """The exchange has no more use for the answer: the worker shall stop working on it."""
        self.relay.detach()
        self.exchange = None
        self._source = None
        if self.state != EGRESS_CLOSED:
            self.state = EGRESS_CLOSED
            self.disarm()
            self.relay.close()
            self.transport.abort()

    cdef void on_timeout(self) except *:
        self.relay.timed_out()
        self.drop()

    cdef void on_deadline(self, Deadlines which) noexcept:
        if self.state == EGRESS_IDLE:
            if self in self.pool.idle:
                self.pool.idle.remove(self)
            self._close()
        elif not self.heard:
            self.on_timeout()

    # ---- how it ends

    cdef void _close(self) except *:
        if self.state != EGRESS_CLOSED:
            self.state = EGRESS_CLOSED
            self.disarm()
            self.relay.close()
            if self.transport is not None:
                self._hang_up()

    cdef void _hang_up(self) except *:
        """End the connection now: a transport would wait without end for a worker that reads no more."""
        self._source = None
        if self.transport.get_write_buffer_size() > 0:
            self.transport.abort()
        else:
            self.transport.close()

    cdef void _fail(self, int outcome) except *:
        """Nothing sensible can come any more."""
        self.relay.broke(outcome)
        self.exchange = None
        self._close()

    cdef void _complete(self, bytes data, Py_ssize_t at, bint terminated) except *:
        cdef bint reusable = (
            self._head.keep_alive and not self._body_open and at == PyBytes_GET_SIZE(data)
            and self.state != EGRESS_UNTIL_CLOSE and self.pool.has_room()
        )
        if self.paused:
            self.resume()
        self.exchange = None
        self._head = None
        if reusable:
            self.state = EGRESS_IDLE
            self.pool.put(self)
            self.relay.end(terminated)
        else:
            # Closed before the relay may end the exchange, whose last words could start another on it.
            self.state = EGRESS_CLOSED
            self.disarm()
            self._hang_up()
            self.relay.end(terminated)
            self.relay.close()

    # ---- the answer

    cdef void _read(self, bytes data) except *:
        cdef Py_ssize_t at = 0, size = PyBytes_GET_SIZE(data), take
        cdef int verdict
        if self.state == EGRESS_IDLE:                            # nothing was asked
            if self in self.pool.idle:
                self.pool.idle.remove(self)
            self._close()
            return
        if self.state == EGRESS_HEAD:
            if not self.heard:
                self.heard = True
                self.disarm()
            if self._partial is not None:
                data = self._partial + data
                self._partial = None
            at = self._take_head(data, 0)
            if at < 0:
                return
            size = PyBytes_GET_SIZE(data)
        if self.state == EGRESS_CHUNKED:
            at = self._take_chunks(data, at)
        elif self.state == EGRESS_LENGTH:
            take = <Py_ssize_t>min(<long long>(size - at), self._left)
            if take:
                self._left -= take
                verdict = self.relay.piece(data, at, take)
                if verdict:
                    self._fail(verdict)
                    return
            if self._left == 0:
                self._complete(data, at + take, False)
                return
        elif self.state == EGRESS_UNTIL_CLOSE and size > at:
            verdict = self.relay.piece(data, at, size - at)
            if verdict:
                self._fail(verdict)
                return

    cdef Py_ssize_t _take_head(self, bytes data, Py_ssize_t at) except -2:
        """Read the head at `at`; where the body begins, or -1 when there is nothing more to do now."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), end
        cdef const char* text = PyBytes_AS_STRING(data)
        cdef ResponseHead head
        cdef int verdict
        while True:
            end = head_end(text + at, size - at, 0)
            if end == 0 or end > _MAX_HEAD:
                if size - at > _MAX_HEAD or (size - at >= 5 and text[at:at + 5] != b"HTTP/"):
                    self._fail(MALFORMED)
                else:
                    self._partial = data[at:]
                return -1
            try:
                head = parse_response(text + at, end)
            except HeadError:
                self._fail(MALFORMED)
                return -1
            at += end
            if head.status >= 200:
                break
            if head.status == 101:
                self._fail(MALFORMED)
                return -1
        self._head = head
        verdict = self.relay.begin(head)
        if verdict:
            self._fail(verdict)
            return -1
        if head.status == 204 or head.status == 304:
            self.state = EGRESS_LENGTH
            self._left = 0
        elif head.chunked:
            self.state = EGRESS_CHUNKED
            if self.chunks is None:
                self.chunks = ChunkReader()
            self.chunks.reset()
        elif head.content_length >= 0:
            self.state = EGRESS_LENGTH
            self._left = head.content_length
        else:
            self.state = EGRESS_UNTIL_CLOSE
        return at

    cdef Py_ssize_t _take_chunks(self, bytes data, Py_ssize_t at) except -2:
        cdef ChunkReader chunks = self.chunks
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data), begin = at
        cdef const char* text = PyBytes_AS_STRING(data)
        cdef Py_ssize_t last = 0, last_size = 0, payload = 0
        cdef bint raw = chunks.at_boundary() and self.relay.takes_raw()
        cdef Step got
        cdef int verdict
        if at == size:
            return at
        if raw:
            # First look whether everything here is whole chunks: then they pass as they are.
            chunks.plain = True
            chunks.position = at
            while True:
                got = chunks.step(text, size)
                if got != STEP_DATA:
                    break
                last = chunks.piece
                last_size = chunks.piece_size
                payload += last_size
            if got == STEP_END and chunks.plain:
                at = chunks.position
                self._meter(text, begin, at)
                self.relay.raw(data if begin == 0 and at == size else text[begin:at], text + last, last_size, payload)
                self._complete(data, at, True)
                return at
            if got == STEP_MORE and chunks.plain and chunks.at_boundary():
                self._meter(text, begin, size)
                self.relay.raw(data if begin == 0 else text[begin:size], text + last, last_size, payload)
                return size
            chunks.reset()                                       # the run began at a boundary: read it again
        chunks.position = at
        while True:
            got = chunks.step(text, size)
            if got == STEP_DATA:
                verdict = self.relay.piece(data, chunks.piece, chunks.piece_size)
                if verdict:
                    self._fail(verdict)
                    return size
            elif got == STEP_MORE:
                return size
            elif got == STEP_END:
                self._complete(data, chunks.position, False)
                return chunks.position
            else:
                self._fail(CUT)
                return size

    cdef void _meter(self, const char* text, Py_ssize_t at, Py_ssize_t end) except *:
        """Show what whole chunks hold to who counts the answer's tokens, if anybody does."""
        cdef ChunkReader chunks = self.chunks
        if self.exchange is None or self.exchange.meter is None:
            return
        chunks.reset()                                           # the run began at a boundary: read it again
        chunks.plain = True
        chunks.position = at
        while chunks.step(text, end) == STEP_DATA:
            self.exchange.meter.take(text + chunks.piece, chunks.piece_size)

    # ---- the transport's callbacks

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if self.state != EGRESS_CLOSED:
            self._read(data)
            if self.relay._last > self.pool.heard_at:
                self.pool.heard_at = self.relay._last

    def eof_received(self):
        if self.state == EGRESS_UNTIL_CLOSE:
            self._complete(b"", 0, False)
        elif self.state != EGRESS_CLOSED:
            self._lost()
        return False

    def connection_lost(self, error):
        if self._counted:
            self._counted = False
            self.pool.counts.upstreams -= 1
        if self.state == EGRESS_UNTIL_CLOSE and error is None:
            self._complete(b"", 0, False)
        elif self.state != EGRESS_CLOSED:
            self._lost()

    def _lost(self):
        if self.state == EGRESS_IDLE and self in self.pool.idle:
            self.pool.idle.remove(self)
        self._fail(DIED if self.state == EGRESS_HEAD else CUT)

    def pause_writing(self):
        self.full = True
        if self._body_open and self.exchange is not None and self.exchange.reply is not None:
            self.exchange.reply.pause_body()

    def resume_writing(self):
        self.full = False
        if self._source is not None:
            try:
                self._pump()
            except OSError:
                self._fail(DIED)
            return
        if self.exchange is not None and self.exchange.reply is not None:
            self.exchange.reply.resume_body()
