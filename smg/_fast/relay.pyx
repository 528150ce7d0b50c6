"""A worker's answer on its way to the client.

A plain answer is gathered whole, so that it can still be replaced by another attempt's; a stream is
passed on as it arrives. Chunks that arrive whole go out in the very bytes they came in. Between two
of the worker's writes the client stands at the end of a chunk, so a comment or an error frame can
always follow.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy, memmove, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from smg._fast.exchange cimport (
    ANSWERED, BODY_COMING, BROKEN, RELAYED, TIMED_OUT, TOO_LARGE, Exchange,
)
from smg._fast.head cimport ResponseHead

cdef bytes _PING = b": ping\n\n"
cdef bytes _DONE = b"data: [DONE]\n\n"


cdef double _now() noexcept:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + t.tv_nsec * 1e-9


@cython.final
cdef class Relay:
    """Belongs to one worker connection and serves one exchange after another."""

    cdef void attach(self, Exchange x) except *:
        self.exchange = x
        self.head = None
        self.streaming = False
        self._pieces = None
        self._size = 0
        if self.limits.between_s > 0:
            self._last = _now()
            self._arm(self._last)

    cdef int begin(self, ResponseHead head) except -1:
        """Take the answer's head; an `Outcome` when the answer is not to be read on, else 0."""
        cdef Exchange x = self.exchange
        cdef timespec t
        clock_gettime(CLOCK_MONOTONIC, &t)
        x.first_byte_ns = <long long>t.tv_sec * 1000000000 + t.tv_nsec
        self.head = head
        if x.meter is not None:
            x.meter.reset()
        self._event_stream = head.event_stream
        self.streaming = head.status < 400 and (x.stream or head.event_stream) and not x.gather
        if self.limits.between_s > 0 or self._pings():
            self._last = _now()
            self._arm(self._last)
        if not self.streaming:
            return TOO_LARGE if head.content_length > self.limits.max_payload_bytes else 0
        memset(self._tail, 10, TAIL)                             # as after a blank line
        x.status = head.status
        x.started = True
        self._chunked = head.event_stream or head.content_length < 0
        x.reply.start(head.status, head.reason, x._head_lines(head.lines), -1 if self._chunked else head.content_length)
        return 0

    cdef int piece(self, bytes data, Py_ssize_t start, Py_ssize_t size) except -1:
        """Take payload data[start:start + size]; an `Outcome` when it is not to be read on, else 0."""
        cdef Exchange x = self.exchange
        if size != PyBytes_GET_SIZE(data):
            data = PyBytes_AS_STRING(data)[start:start + size]
        if x.meter is not None:
            x.meter.take(PyBytes_AS_STRING(data), size)
        if self.streaming:
            self._came(x)
            self._note_tail(PyBytes_AS_STRING(data), size)
            x.sent_bytes += size
            x.reply.chunk(data)
            return 0
        if self._timer is not None:
            self._last = _now()
        self._size += size
        if self._size > self.limits.max_payload_bytes:
            return TOO_LARGE
        if self._pieces is None:
            self._pieces = [data]
        else:
            self._pieces.append(data)
        return 0

    cdef bint takes_raw(self) noexcept:
        """May chunks be passed on with the framing they have?"""
        return self.streaming and self.exchange.reply.takes_chunks

    cdef void raw(self, bytes data, const char* last, Py_ssize_t last_size, Py_ssize_t payload) except *:
        """Pass on whole chunks as received; `last` is the last chunk's payload, `payload` the size of all."""
        cdef Exchange x = self.exchange
        if last_size:
            self._came(x)
            self._note_tail(last, last_size)
        else:
            self._last = _now()
        x.sent_bytes += payload
        x.reply.raw(data)

    cdef void _came(self, Exchange x) except *:
        """A piece of a stream's body is here: the first one, or so long after the one before."""
        cdef double now = _now(), gap
        if x.first_event_ns == 0:
            x.first_event_ns = <long long>(now * 1e9)
            if x.on_first_event is not None:
                self._tell_first(x)
        else:
            gap = now - self._last
            self.gaps.note(gap)
            if gap > x.longest_gap_s:
                x.longest_gap_s = gap
        self._last = now

    cdef void _tell_first(self, Exchange x) except *:
        """The first of the body is here: what the worker did before it was prefill."""
        told, x.on_first_event = x.on_first_event, None
        told(_now())

    cdef void end(self, bint terminated) except *:
        """The answer is complete; `terminated`: the last chunk has already been passed on."""
        cdef Exchange x = self.exchange
        self.exchange = None
        if self.streaming:
            self.streaming = False
            x.upstream = None                                    # or a full transport would pause an idle connection
            x.reply.end(terminated)
            x.finish_attempt(RELAYED)
            return
        # A refusal came without prefill: its time would teach that the worker is fast.
        if x.on_first_event is not None and self.head.status < 400:
            self._tell_first(x)
        x.answer_head = self.head
        if self._pieces is None:
            x.answer_body = b""
        elif len(self._pieces) == 1:
            x.answer_body = self._pieces[0]
        else:
            x.answer_body = b"".join(self._pieces)
        self._pieces = None
        x.finish_attempt(ANSWERED)

    cdef void broke(self, int outcome) except *:
        """The worker failed: tell the client what it can still be told, and end the attempt."""
        cdef Exchange x = self.exchange
        if x is None:
            return
        if self.streaming:
            self._end_with(self.limits.broken_frame)
            return
        self.exchange = None
        self._pieces = None
        x.finish_attempt(outcome)

    cdef void timed_out(self) except *:
        if self.streaming:
            self._end_with(self.limits.timeout_frame)
        else:
            self.broke(TIMED_OUT)

    cdef void _end_with(self, bytes frame) except *:
        cdef Exchange x = self.exchange
        self.exchange = None
        self.streaming = False
        if x.reply is None:
            return
        x.upstream = None
        if self._event_stream:
            if not self._said_done():
                x.reply.chunk((b"" if self._between_frames() else b"\n\n") + frame + _DONE)
            x.reply.end(False)
        else:
            x.reply.abort()
        x.finish_attempt(BROKEN)

    cdef void detach(self) noexcept:
        """Forget the exchange; nothing more is told to it."""
        self.exchange = None
        self.streaming = False
        self._pieces = None

    cdef void close(self) noexcept:
        self.detach()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- where the stream stands

    cdef void _note_tail(self, const char* data, Py_ssize_t size) noexcept:
        if size >= TAIL:
            memcpy(self._tail, data + size - TAIL, TAIL)
        else:
            memmove(self._tail, self._tail + size, TAIL - size)
            memcpy(self._tail + TAIL - size, data, size)

    cdef bint _between_frames(self) noexcept:
        """Did the payload end with a blank line (two line ends, each CR, LF or CR LF)?"""
        cdef int at = TAIL - 1
        if self._tail[at] == 10:
            at -= 2 if self._tail[at - 1] == 13 else 1
        elif self._tail[at] == 13:
            at -= 1
        else:
            return False
        return self._tail[at] == 10 or self._tail[at] == 13

    cdef bint _said_done(self) noexcept:
        """Was the last line that is not blank `data: [DONE]`?"""
        cdef int at = TAIL
        while at > 0 and (self._tail[at - 1] == 10 or self._tail[at - 1] == 13):
            at -= 1
        if at >= 12 and memcmp(self._tail + at - 12, b"data: [DONE]", 12) == 0:
            at -= 12
        elif at >= 11 and memcmp(self._tail + at - 11, b"data:[DONE]", 11) == 0:
            at -= 11
        else:
            return False
        return at == 0 or self._tail[at - 1] == 10 or self._tail[at - 1] == 13

    # ---- silence

    cdef bint _pings(self) noexcept:
        return self.streaming and self._event_stream and self.limits.keepalive_s > 0

    cdef void _arm(self, double now) except *:
        """See to it that the timer fires no later than the next silence is too long."""
        cdef double due = now + 1e9
        if self.limits.between_s > 0:
            due = self._last + self.limits.between_s
        if self._pings():
            due = min(due, max(self._last, self._pinged) + self.limits.keepalive_s)
        if self._timer is not None:
            if self._due <= due + 0.001:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self.limits.loop.call_later(max(due - now, 0.0) + 0.001, self._on_silence)

    def _on_silence(self):
        cdef double now = _now()
        cdef Exchange x = self.exchange
        self._timer = None
        if x is None or x.reply is None:
            return
        if self.upstream.paused or (x.piped and x.received == BODY_COMING):   # it is the client that is slow
            self._last = now
        if self.limits.between_s > 0 and now - self._last >= self.limits.between_s:
            self.upstream.on_timeout()
            return
        if self._pings() and now - max(self._last, self._pinged) >= self.limits.keepalive_s:
            self._pinged = now
            if self._between_frames():
                x.reply.chunk(_PING)
        if self.limits.between_s > 0 or self._pings():
            self._arm(now)
