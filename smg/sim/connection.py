"""The socket side of the simulated engine: connections, the reply to one request, and the listener.

One request at a time per connection; pipelined requests wait. No task per request: a reply is
written by whoever holds it, and says through `on_lost` when the client left first.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import socket
import struct
from collections.abc import Callable
from typing import cast

from smg.sim.faults import Cut
from smg.sim.http import BadRequest, Parser, Request

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
MAX_PIPELINED_BYTES = 262144
SWEEP_SECS = 1.0
# A cut waits this long, so that the events before it leave the socket first.
CUT_DELAY_SECS = 0.02

_REASONS = {status.value: status.phrase.encode() for status in http.HTTPStatus}
_COMMON = b"server: smg-sim\r\nx-simulated: 1\r\n"
_EVENTS_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
)


class Reply:
    """The client side of one exchange: one answer, or a stream of server-sent events."""

    __slots__ = (
        "_connection",
        "_held",
        "_is_chunked",
        "_transport",
        "cut",
        "events_sent",
        "is_broken",
        "is_done",
        "is_lost",
        "is_writable",
        "on_lost",
        "on_writable",
        "request",
    )

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self._transport = connection.transport
        self._is_chunked = not request.is_http10
        self.request = request
        self._held: list[bytes] | None = None
        self.cut: Cut | None = None
        self.events_sent = 0
        self.is_broken = False  # we ended it on purpose, before its time
        self.is_done = False
        self.is_lost = False  # nothing can be written any more, whoever ended it
        self.is_writable = True
        self.on_lost: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    def answer(self, status: int, body: bytes, content_type: bytes = JSON) -> None:
        """Write a whole answer and end the exchange."""
        if self.is_done or self.is_lost:
            return
        head = b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%bcontent-length: %d\r\n" % (
            status,
            _REASONS.get(status, b"Status"),
            content_type,
            _COMMON,
            len(body),
        )
        if self.cut is not None:
            self._transport.write(head + b"\r\n" + body[: len(body) // 2])
            self._break(self.cut)
            return
        self._transport.write(head + self._closing() + body)
        self._end()

    def start_events(self) -> None:
        framing = b"transfer-encoding: chunked\r\n" if self._is_chunked else b""
        self._connection.request_keeps_alive &= self._is_chunked
        self._transport.write(_EVENTS_HEAD + _COMMON + framing + self._closing())

    def event(self, data: bytes) -> None:
        """Write one event (its bytes with the empty line at the end), in a write of its own unless held."""
        if self.is_lost:
            return
        if self.cut is not None and self.events_sent >= self.cut.after_events:
            self._break(self.cut)
            return
        self.events_sent += 1
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def hold(self) -> None:
        """Keep events until `flush`, which writes them at once."""
        self._held = []

    def flush(self) -> None:
        held, self._held = self._held, None
        if held:
            self._transport.write(b"".join(held))

    def end_events(self) -> None:
        if self.is_lost:
            return
        if self.cut is not None and self.events_sent >= self.cut.after_events:
            self._break(self.cut)
            return
        if self._is_chunked:
            self._transport.write(b"0\r\n\r\n")
        self._end()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.is_broken = True
        self._lose()
        if not self._transport.is_closing():
            endpoint = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def hang_up(self) -> None:
        """Close the connection in an orderly way, whatever was promised."""
        self.is_broken = True
        self._lose()
        self._transport.close()

    def lost(self) -> None:
        """The client left; called by the connection."""
        if not self.is_done:
            self._lose()

    def _closing(self) -> bytes:
        return b"\r\n" if self._connection.request_keeps_alive else b"connection: close\r\n\r\n"

    def _end(self) -> None:
        self.is_done = True
        self.on_lost = self.on_writable = None
        self._connection.reply_ended()

    def _lose(self) -> None:
        """Tell the writer, once, that nothing more can be written."""
        self.is_lost = True
        on_lost, self.on_lost, self.on_writable = self.on_lost, None, None
        if on_lost is not None:
            on_lost()

    def _break(self, cut: Cut) -> None:
        self.is_broken = True
        self.flush()
        self._lose()
        action = {"reset": self.reset, "close": self.hang_up}.get(cut.how)
        if action is not None:
            asyncio.get_running_loop().call_later(CUT_DELAY_SECS, action)


class Connection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.transport: asyncio.Transport
        self.request_keeps_alive = True
        self.last_active = 0.0
        self._parser = Parser(listener.max_body_bytes)
        self._reply: Reply | None = None
        self._is_advancing = False
        self._is_paused = False

    @property
    def is_busy(self) -> bool:
        return self._reply is not None

    def reply_ended(self) -> None:
        self._reply = None
        if not self.request_keeps_alive:
            self.transport.close()
        elif not self._is_advancing:
            self._advance()

    def _advance(self) -> None:
        """Serve buffered requests until one is left unanswered or bytes are missing."""
        self._is_advancing = True
        try:
            while self._reply is None and not self.transport.is_closing():
                request = self._parser.next()
                if request is None:
                    if self._parser.take_continue():
                        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    break
                self.request_keeps_alive = request.keep_alive
                self._reply = reply = Reply(self, request)
                self.listener.serve(request, reply)
        except BadRequest as problem:
            self._refuse(problem)
        finally:
            self._is_advancing = False
        if self._is_paused and self._reply is None and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    def _refuse(self, problem: BadRequest) -> None:
        body = problem.message.encode()
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%bcontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (problem.status, _REASONS[problem.status], TEXT, _COMMON, len(body), body)
        )
        self.transport.close()

    # ---- callbacks of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.last_active = self.listener.loop.time()
        self.listener.opened(self)

    def data_received(self, data: bytes) -> None:
        self.last_active = self.listener.loop.time()
        self._parser.feed(data)
        if self._reply is None:
            self._advance()
        elif self._parser.buffered_bytes > MAX_PIPELINED_BYTES and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        if self._reply is not None:
            self._reply.is_writable = False

    def resume_writing(self) -> None:
        if self._reply is not None:
            self._reply.is_writable = True
            if self._reply.on_writable is not None:
                self._reply.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self.listener.closed(self)
        if self._reply is not None:
            self._reply.lost()
            self._reply = None


class Listener:
    """Accepts connections, hands requests to `serve`, and closes idle connections."""

    def __init__(
        self,
        serve: Callable[[Request, Reply], None],
        *,
        max_body_bytes: int,
        idle_secs: float,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.serve = serve
        self.max_body_bytes = max_body_bytes
        self.connections_seen = 0
        self.url = ""
        self._idle_secs = idle_secs
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def connections_open(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. `url` holds the result. Raises `OSError`."""
        self._server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=4096)
        bound = self._server.sockets[0].getsockname()
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"http://{shown}:{bound[1]}"
        self._sweep = self.loop.call_later(SWEEP_SECS, self._close_idle)

    async def close(self) -> None:
        """Stop at once: the listening socket and every connection."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        if self._server is not None:
            await self._server.wait_closed()

    def opened(self, connection: Connection) -> None:
        self.connections_seen += 1
        self._connections.add(connection)

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def _close_idle(self) -> None:
        self._sweep = self.loop.call_later(SWEEP_SECS, self._close_idle)
        if self._idle_secs <= 0:
            return
        limit = self.loop.time() - self._idle_secs
        for connection in list(self._connections):
            if not connection.is_busy and connection.last_active < limit:
                connection.transport.close()
