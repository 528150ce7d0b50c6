"""The client's side of an exchange that goes through aiohttp.

Framing, deadlines and the connection's end stay the ingress's; a carrier in Python reads the request's
body from aiohttp and writes the answer through it (smg/server/data_plane.py).
"""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE

from smg._fast.exchange cimport (
    BODY_ABORTED, BODY_COMING, BODY_COMPLETE, BODY_MALFORMED, BODY_TOO_LARGE, Exchange, Reply,
)
from smg._fast.ingress cimport Ingress

cdef enum:
    _CHUNKED = -1            # how the answer is framed, unless it has a length
    _UNTIL_CLOSE = -2


@cython.final
cdef class WebReply(Reply):
    """`begin` starts the exchange of the message that the ingress has lent; `close` is the carrier's last act.

    The carrier's methods: `read_body()`, `pause_body()`, `resume_body()`; `start(status, reason, head, length, keep)`
    with a length of -1 for chunks and -2 for the end of the connection, `write(data)`, `end()`; `cut()`.
    """
    cdef Ingress ingress
    cdef object carrier            # None when it is done
    cdef Exchange exchange         # None when it has answered, or its client has left
    cdef object _told              # is called when the client has taken the answer
    cdef list _pieces              # of the body

    def __init__(self, Ingress ingress, carrier):
        self.ingress = ingress
        self.carrier = carrier
        self.takes_chunks = False                                # aiohttp frames them

    def begin(self, route, serve):
        """Start the exchange; `serve` gives the coroutine that carries it."""
        cdef Ingress ingress = self.ingress
        if not ingress.lends:
            raise RuntimeError("the message is not lent")
        self.exchange = Exchange(ingress.head, route, self, ingress.front.limits)
        ingress.exchange = self.exchange
        self.exchange.run(serve(self.exchange))

    def close(self):
        """The client has the answer, or will never have it, or nobody waits for it any more."""
        cdef Exchange x = self.exchange
        self.carrier = None
        if x is not None:
            self._let_go()
            if not x.client_left:
                x.on_client_left()
        if self._told is not None:
            told, self._told = self._told, None
            told()

    cdef void _let_go(self) noexcept:
        cdef Exchange x = self.exchange
        self.exchange = None
        self._pieces = None
        if x is not None:
            x.reply = None
            if self.ingress.exchange is x:
                self.ingress.exchange = None

    # ---- the request's body

    cdef void collect(self, Exchange x, long long limit) except *:
        self._read(x, limit)

    cdef void pipe(self, Exchange x, long long limit) except *:
        self._read(x, limit)

    cdef void _read(self, Exchange x, long long limit) except *:
        cdef Ingress ingress = self.ingress
        ingress._limit = limit
        if ingress.head.content_length > limit:
            ingress._body_failed(BODY_TOO_LARGE)
        elif ingress._body_done:
            self.body_end()
        else:
            ingress.lend_body()
            if x.received == BODY_COMING:                        # else it is malformed
                self.carrier.read_body()

    def body_piece(self, bytes data):
        """The next piece of the body; none when it is not wanted any more."""
        cdef Exchange x = self.exchange
        if x is None or x.received != BODY_COMING:
            return
        if x.piped:
            if x.upstream is not None:
                x.upstream.body_piece(data)
        elif x.sink is not None:
            try:
                x.sink(data)
            except ValueError:
                self.ingress._body_failed(BODY_MALFORMED)
        elif self._pieces is None:
            self._pieces = [data]
        else:
            self._pieces.append(data)

    def body_end(self):
        """There are no more pieces."""
        cdef Exchange x = self.exchange
        cdef bytes body
        if x is None or x.received != BODY_COMING:
            return
        if x.piped:
            if x.upstream is not None:
                x.received = BODY_COMPLETE
                x.upstream.body_end(x.head.chunked)
            return
        body = b"" if self._pieces is None else b"".join(self._pieces)
        self._pieces = None
        x.body_arrived(body, BODY_COMPLETE)

    def body_failed(self):
        """aiohttp gives no more of it."""
        if self.exchange is not None and self.exchange.received == BODY_COMING:
            self.ingress._body_failed(BODY_ABORTED)

    cdef void pause_body(self) noexcept:
        self.ingress.pause_body()
        if self.carrier is not None:
            self.carrier.pause_body()

    cdef void resume_body(self) noexcept:
        self.ingress.resume_body()
        if self.carrier is not None:
            self.carrier.resume_body()

    # ---- the answer

    cdef void answer(self, int status, bytes reason, bytes lines, bytes body) except *:
        self.start(status, reason, lines, PyBytes_GET_SIZE(body))
        if body:
            self.chunk(body)
        self.end(False)

    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *:
        cdef Ingress ingress = self.ingress
        cdef bytes head = ingress._answer_head(status, reason, lines, length)
        if length < 0:
            # An answer without a body has no framing.
            length = _CHUNKED if ingress.takes_chunks and status != 204 and status != 304 else _UNTIL_CLOSE
        if self.carrier is not None:
            self.carrier.start(status, reason, head, length, ingress._keep)

    cdef void chunk(self, bytes data) except *:
        if self.carrier is not None:
            self.carrier.write(data)

    cdef void raw(self, bytes data) except *:
        self.chunk(data)

    cdef void end(self, bint terminated) except *:
        self._let_go()
        if self.carrier is not None:
            self.ingress.front.limits.idle.arm(self.ingress)     # a client that takes nothing is cut
            self.carrier.end()

    cdef void abort(self) noexcept:
        self._let_go()
        self.ingress.abort()
        if self.carrier is not None:
            self.carrier.cut()

    # ---- the client

    cdef object peer(self):
        return self.ingress.peer()

    cdef bint tell_when_taken(self, told) except -1:
        if self.carrier is None:
            return False
        self._told = told
        return True
