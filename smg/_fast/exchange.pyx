"""The context of one request, and the driver of the coroutine that carries it.

The driver takes the place of an asyncio task: it starts the coroutine at once and resumes it inside
the callback that completes what it waited for, so that an exchange costs no turn of the loop. Any
future can be awaited in it; what asks for the current task (`asyncio.timeout`) cannot be used there.
"""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

import asyncio

from smg._fast.deadlines cimport Deadlines, Timed
from smg._fast.head cimport RequestHead, ResponseHead
from smg._fast.limits cimport Limits


cdef extern from *:
    """
    /* 1: a value was yielded, 0: the coroutine has ended, -1: it raised. */
    static int smg_send(PyObject *steps, PyObject **yielded) {
        PySendResult how = PyIter_Send(steps, Py_None, yielded);
        return how == PYGEN_NEXT ? 1 : how == PYGEN_RETURN ? 0 : -1;
    }
    """
    int smg_send(object steps, PyObject** yielded) except -1


# The enums again, for Python.
globals().update({
    "BODY_COMING": <int>BODY_COMING, "BODY_COMPLETE": <int>BODY_COMPLETE, "BODY_TOO_LARGE": <int>BODY_TOO_LARGE,
    "BODY_STALLED": <int>BODY_STALLED, "BODY_LATE": <int>BODY_LATE, "BODY_ABORTED": <int>BODY_ABORTED,
    "BODY_MALFORMED": <int>BODY_MALFORMED,
    "PENDING": <int>PENDING, "ANSWERED": <int>ANSWERED, "RELAYED": <int>RELAYED, "BROKEN": <int>BROKEN,
    "DIED": <int>DIED, "CUT": <int>CUT, "MALFORMED": <int>MALFORMED, "TOO_LARGE": <int>TOO_LARGE,
    "TIMED_OUT": <int>TIMED_OUT, "BODY_FAILED": <int>BODY_FAILED, "WITHDRAWN": <int>WITHDRAWN,
})

cdef object _CancelledError = asyncio.CancelledError


cdef long long _now_ns() noexcept:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <long long>t.tv_sec * 1000000000 + t.tv_nsec


cdef class Reply(Timed):
    """The client side of an exchange: the request's body comes from it, the answer goes to it."""

    cdef void collect(self, Exchange x, long long limit) except *:
        pass

    cdef void pipe(self, Exchange x, long long limit) except *:
        pass

    cdef void pause_body(self) noexcept:
        pass

    cdef void resume_body(self) noexcept:
        pass

    cdef void answer(self, int status, bytes reason, bytes lines, bytes body) except *:
        pass

    cdef void start(self, int status, bytes reason, bytes lines, long long length) except *:
        pass

    cdef void chunk(self, bytes data) except *:
        pass

    cdef void raw(self, bytes data) except *:
        pass

    cdef void end(self, bint terminated) except *:
        pass

    cdef void abort(self) noexcept:
        pass

    cdef object peer(self):
        """The address the client connects from, None when it has none."""
        return None

    cdef bint tell_when_taken(self, told) except -1:
        """Call `told` when the client has taken what was written, or is gone; False: there is nothing to
        wait for."""
        return False


cdef class Upstream(Timed):
    """The worker side of an exchange: takes the request, gives the answer to the relay. `begin` arms the
    exchange, since how long an attempt may take is the worker's."""

    cdef void begin(self, Exchange x, bytes head, object body) except *:
        pass

    cdef void body_piece(self, bytes data) except *:
        pass

    cdef void body_end(self, bint chunked) except *:
        pass

    cdef void pause(self) noexcept:
        pass

    cdef void resume(self) noexcept:
        pass

    cdef void drop(self) noexcept:
        pass

    cdef void on_timeout(self) except *:
        pass


@cython.final
cdef class Exchange(Timed):
    """One request and its response, from parsed head to recorded outcome. Awaiting it waits for the
    one thing it was last asked to do: to receive the body, or to get a worker's answer."""

    def __init__(self, RequestHead head, route, Reply reply, Limits limits):
        self.head = head
        self.route = route
        self.reply = reply
        self._writer = reply
        self.limits = limits
        self.begun_ns = _now_ns()
        self.request_id = b""
        self.routed_line = b""
        self.extra_lines = b""

    # ---- the driver

    cdef void run(self, object steps) except *:
        self._steps = steps
        self._step()

    cdef void _step(self) except *:
        cdef PyObject* got = NULL
        cdef Exchange _kept = self                                # the coroutine may hold the last reference
        self._suspended = False
        self._waited_for = None
        self._running = True
        try:
            if not self._cancelled:
                if not smg_send(self._steps, &got):
                    Py_XDECREF(got)
                    self._ended()
                    return
                yielded = <object>got
                Py_XDECREF(got)
            else:
                self._cancelled = False
                yielded = self._steps.throw(_CancelledError())
        except StopIteration:
            self._ended()
            return
        except BaseException as error:
            self._ended()
            if not isinstance(error, _CancelledError):
                self.limits.loop.call_exception_handler({"message": "an exchange failed", "exception": error})
            return
        finally:
            self._running = False
        self._suspended = True
        if yielded is self:
            if self._ready or self._cancelled:                    # completed while it was being suspended
                self._step()
        elif yielded is None:
            self.limits.loop.call_soon(self._on_future, None)
        else:
            yielded._asyncio_future_blocking = False
            self._waited_for = yielded
            yielded.add_done_callback(self._on_future)
            if self._cancelled:
                yielded.cancel()

    cdef void _ended(self) except *:
        """The coroutine is over: neither worker nor client may wait for more of it."""
        self._steps = None
        self._let_go()
        if self.reply is not None:
            self.reply.abort()

    def _on_future(self, future):
        if self._steps is not None and self._suspended and self._waited_for is future:
            if self._cancelled and future is not None and not future.cancelled():
                future.exception()                               # nobody will ask for it, and that be complained of
            self._step()

    cdef void _wake(self) except *:
        self._ready = True
        if self._suspended and self._waited_for is None and self._steps is not None:
            self._step()

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self._ready and not self._cancelled:
            raise StopIteration
        return self

    # ---- the request's body

    def receive_body(self, long long limit):
        """Buffer the body, at most `limit` bytes; await the result, then look at `received`."""
        self._ready = False
        self.received = BODY_COMING
        self.limits.request.arm(self)
        if self.reply is None:
            self.body_arrived(None, BODY_ABORTED)
        else:
            self.reply.collect(self, limit)
        return self

    def receive_into(self, sink, long long limit):
        """Give `sink` the body's pieces as they arrive, at most `limit` bytes; await the result, then look
        at `received`. A ValueError of `sink` ends the receipt as malformed."""
        self.sink = sink
        return self.receive_body(limit)

    cdef void body_arrived(self, bytes body, int received) except *:
        self.body = body
        self.sink = None
        self.received = received
        self.disarm()
        self._wake()

    def forget_body(self):
        """Give the request's body away: nobody will ask for it."""
        cdef bytes body = self.body
        self.body = None
        return body

    def pipe_body(self):
        """From now on the body goes to the worker as it arrives; `send` starts it."""
        self.piped = True
        self.received = BODY_COMING

    cdef void body_failed(self, int received) except *:
        """A body that was being received or piped has ended badly."""
        self.received = received
        if self.upstream is not None:
            self.upstream.drop()
            self.finish_attempt(BODY_FAILED)
        else:
            self.body_arrived(None, received)

    # ---- one attempt at a worker

    def send(self, Upstream upstream, bytes head, body):
        """Send the request to a worker; await the result, then look at `outcome`. `body`: bytes, an
        iterator of bytes that is read as fast as the worker takes them, or None."""
        if self.reply is None:
            upstream.drop()
            raise RuntimeError("nobody is left to answer")
        self._ready = False
        self.outcome = PENDING
        self.answer_head = None
        self.answer_body = None
        self.first_byte_ns = 0
        self.upstream = upstream
        upstream.begin(self, head, body)
        if self.piped and self.outcome == PENDING:
            self.reply.pipe(self, self.limits.max_payload_bytes)
        return self

    cdef void finish_attempt(self, int outcome) except *:
        self.outcome = outcome
        self.upstream = None
        self.disarm()
        self._wake()

    cdef void _let_go(self) noexcept:
        """Wait for nothing more of the worker."""
        self.disarm()
        if self.upstream is not None:
            self.upstream.drop()
            self.upstream = None

    cdef void on_deadline(self, Deadlines which) noexcept:
        cdef bint body_late = (
            self.received == BODY_COMING and (self.piped or self.upstream is None) and not self.started)
        if self.upstream is not None and (self.upstream.full or not body_late):
            self.upstream.on_timeout()
        elif body_late:
            self.body_failed(BODY_LATE)

    cdef void on_client_left(self) except *:
        """The client is gone: let go of the worker and end the coroutine."""
        self.client_left = True
        self.reply = None
        self._let_go()
        if self._steps is None:
            return
        self._cancelled = True
        if self._running or not self._suspended:
            return
        if self._waited_for is not None:
            self._waited_for.cancel()
        else:
            self._step()

    def interrupt(self):
        """Give up what the exchange waits for: its worker is let go of now, its coroutine gets a
        CancelledError in the loop's next turn, may still answer and sees `interrupted`."""
        if self._steps is None or self.client_left:
            return
        self.interrupted = True
        self._cancelled = True
        self._let_go()
        # Not at once: the answer may begin the connection's next exchange, and that interrupt another.
        self.limits.loop.call_soon(self._go_on_interrupted)

    def _go_on_interrupted(self):
        if self._steps is None or self._running or not self._suspended or not self._cancelled:
            return
        if self._waited_for is not None:
            self._waited_for.cancel()
        else:
            self._step()

    # ---- the answer

    cdef bytes _head_lines(self, bytes lines):
        return b"".join((lines, b"x-request-id: ", self.request_id, b"\r\n", self.routed_line, self.extra_lines))

    def relay_answer(self):
        """Give the client the worker's answer that `send` has brought."""
        cdef ResponseHead head = self.answer_head
        if head is None:
            raise RuntimeError("no answer has come")
        self.status = head.status
        if self.reply is not None:
            self.started = True
            self.sent_bytes += PyBytes_GET_SIZE(self.answer_body)
            self.reply.answer(head.status, head.reason, self._head_lines(head.lines), self.answer_body)

    def answer(self, int status, bytes reason, bytes lines, bytes body):
        """Answer by ourselves; `lines` are header lines, each with CR LF."""
        self.status = status
        self._let_go()
        if self.reply is not None:
            self.started = True
            self.reply.answer(status, reason, self._head_lines(lines), body)

    def abort(self):
        """Cut the connection: an answer has begun that cannot be finished."""
        self._let_go()
        if self.reply is not None:
            self.reply.abort()

    def when_delivered(self, told):
        """Call `told` when the client has taken the whole answer or is gone; at once if that is so."""
        if self.client_left or self._writer is None or not self._writer.tell_when_taken(told):
            told()

    def peer(self):
        """The address the client connects from; None when there is none, as on a Unix socket."""
        return None if self.reply is None else self.reply.peer()

    @property
    def answered(self):
        """Has the client been given an answer, or the beginning of one?"""
        return self.started
