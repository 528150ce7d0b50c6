"""A request to a worker beside the one that the client is answered from.

It has an exchange of its own, so that everything that sends a request can send this one as well. The client's
answer may be held back until it is known that this one goes well.
"""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE

import asyncio

from smg._fast.exchange cimport WITHDRAWN, Exchange, Reply

cdef enum:
    _MOST_HELD = 65536       # bytes kept back before the worker they come from has to wait


@cython.final
cdef class Nobody(Reply):
    """Stands where a client would; what streams in is dropped as it comes."""
    cdef Side side

    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *:
        if self.side is not None and status < 300:
            self.side.went_well()


@cython.final
cdef class Held(Reply):
    """Stands before the client and keeps what it is to get. Errors of the gateway's own pass at once."""
    cdef Exchange exchange
    cdef Reply client
    cdef list _pieces              # (is raw, bytes)
    cdef Py_ssize_t _size
    cdef bint _started
    cdef bint _ended
    cdef bint _terminated
    cdef bint _waiting             # the worker was paused
    cdef int _status
    cdef bytes _reason
    cdef bytes _lines
    cdef long long _length

    cdef void stand(self, Exchange x) except *:
        self.exchange = x
        self.client = x.reply
        self.takes_chunks = x.reply.takes_chunks
        self._pieces = []
        x.reply = self

    cdef bint step_aside(self) noexcept:
        """Give the client its place back; False: nobody stands there any more."""
        cdef Exchange x = self.exchange
        self.exchange = None
        if x is None or x.reply is not self:
            return False
        x.reply = self.client
        return True

    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *:
        self._started = True
        self._status = status
        self._reason = reason
        self._lines = lines
        self._length = length

    cdef void chunk(self, bytes data) except *:
        self._keep(False, data)

    cdef void raw(self, bytes data) except *:
        self._keep(True, data)

    cdef void _keep(self, bint is_raw, bytes data) except *:
        self._pieces.append((is_raw, data))
        self._size += PyBytes_GET_SIZE(data)
        if self._size > _MOST_HELD and self.exchange is not None and self.exchange.upstream is not None:
            self._waiting = True
            self.exchange.upstream.pause()

    cdef void end(self, bint terminated) except *:
        self._ended = True
        self._terminated = terminated

    cdef void answer(self, int status, bytes reason, bytes lines, bytes body) except *:
        if self.step_aside():
            self.client.answer(status, reason, lines, body)

    cdef void abort(self) noexcept:
        if self.step_aside():
            self.client.abort()

    cdef void release(self) except *:
        """Let the client have what was kept, and what comes from now on."""
        cdef Exchange x = self.exchange
        cdef Reply client = self.client
        if not self.step_aside():
            return
        if self._started:
            client.start(self._status, self._reason, self._lines, self._length)
        for is_raw, data in self._pieces:
            if is_raw:
                client.raw(data)
            else:
                client.chunk(data)
        self._pieces = []
        if self._ended:
            client.end(self._terminated)
        elif self._waiting and x.upstream is not None:
            x.upstream.resume()


@cython.final
cdef class Edited(Reply):
    """Stands before the client and edits the events of a stream, each as soon as it is whole."""
    cdef Exchange exchange
    cdef Reply client
    cdef object _edit
    cdef bytes _rest               # of an event

    cdef void stand(self, Exchange x, edit) noexcept:
        self.exchange = x
        self.client = x.reply
        self._edit = edit
        self._rest = b""
        x.reply = self

    cdef void step_aside(self) noexcept:
        cdef Exchange x = self.exchange
        self.exchange = None
        self._edit = None
        if x is not None and x.reply is self:
            x.reply = self.client

    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *:
        self.client.start(status, reason, lines, -1)

    cdef void chunk(self, bytes data) except *:
        cdef Py_ssize_t lf, crlf, end
        data = self._rest + data
        lf, crlf = data.rfind(b"\n\n"), data.rfind(b"\r\n\r\n")
        end = max(lf + 2 if lf >= 0 else 0, crlf + 4 if crlf >= 0 else 0)
        if end == 0:
            self._rest = data
            if PyBytes_GET_SIZE(data) > self.exchange.limits.max_payload_bytes:
                self._flush()                                    # no event at all
            return
        self._rest = data[end:]
        self.client.chunk(self._edit(data[:end]))

    cdef void _flush(self) except *:
        if self._rest:
            self.client.chunk(self._rest)
            self._rest = b""

    cdef void end(self, bint terminated) except *:
        cdef Reply client = self.client
        self._flush()
        self.step_aside()
        client.end(False)

    cdef void answer(self, int status, bytes reason, bytes lines, bytes body) except *:
        self.step_aside()
        self.client.answer(status, reason, lines, body)

    cdef void abort(self) noexcept:
        self.step_aside()
        self.client.abort()


@cython.final
cdef class Side:
    """`exchange` carries the request. `gather`: its answer is wanted, and is in the exchange at the end."""
    cdef readonly Exchange exchange
    cdef public object error          # why it failed
    cdef readonly bint is_over
    cdef Exchange _main
    cdef Nobody _nobody
    cdef Held _held
    cdef Edited _edited
    cdef object _waiting              # a future

    def __init__(self, Exchange main, bint gather):
        cdef Nobody nobody = Nobody.__new__(Nobody)
        cdef Exchange x
        nobody.side = self
        x = Exchange(main.head, main.route, nobody, main.limits)
        x.request_id = main.request_id
        x.call = main.call
        x.stream = not gather
        x.gather = gather
        self.exchange = x
        self._nobody = nobody
        self._main = main

    def edit(self, edit):
        """Let the client have the events of its stream as `edit` makes them of whole ones; it must not raise."""
        if self._main.reply is not None:
            self._edited = Edited.__new__(Edited)
            self._edited.stand(self._main, edit)

    def hold(self):
        """Keep the client's answer back until the side's has begun well."""
        if self._main.reply is not None:
            self._held = Held.__new__(Held)
            self._held.stand(self._main)

    def run(self, steps):
        """Carry the side's exchange by a coroutine, which must call `finish` as its last act."""
        self.exchange.run(steps)

    cdef void went_well(self) except *:
        cdef Held held = self._held
        if held is not None:
            self._held = None
            held.release()

    def finish(self):
        """The side is over; with an `error` the main request is withdrawn, unless its client has been given
        something already."""
        self.is_over = True
        self._nobody.side = None
        if self._waiting is not None and not self._waiting.done():
            # First, since what was held may end the answer, and the connection's next request is then on its way.
            self._waiting.set_result(None)
        if self.error is None:
            self.went_well()
        else:
            self._withdraw()

    cdef bint _discard(self) noexcept:
        """What was held is not for the client, who has got nothing so far; False: nothing is held."""
        cdef Exchange x = self._main
        cdef Held held = self._held
        self._held = None
        if held is None or held.exchange is None:
            return False
        x.started = False
        x.status = 0
        x.sent_bytes = 0
        return held.step_aside()

    cdef void _withdraw(self) except *:
        cdef Exchange x = self._main
        if not self._discard():
            return
        if x.upstream is not None:
            x.upstream.drop()
            x.finish_attempt(WITHDRAWN)
        elif x._waited_for is not None and x._waited_for is not self._waiting:
            # It is being connected; when that is done in this very turn, it is too late to cancel the future.
            x._cancelled = True
            x._waited_for.cancel()

    def wait(self):
        """A future that is done when the side is over."""
        self._waiting = asyncio.get_running_loop().create_future()
        if self.is_over:
            self._waiting.set_result(None)
        return self._waiting

    def drop(self):
        """The main request has ended: let go of the side's worker, and of what was held."""
        self._discard()
        if self._edited is not None:
            self._edited.step_aside()
            self._edited = None
        if not self.is_over:
            self.exchange.on_client_left()
