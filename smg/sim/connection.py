"""The socket side of the simulated engine: connections and the listener.

One request at a time per connection; pipelined requests wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from smg.sim.http import BadRequest, Parser, Request
from smg.sim.reply import TEXT, Reply, answer_head

MAX_PIPELINED_BYTES = 262144
SWEEP_SECS = 1.0
# After a refusal what the client still sends is read and dropped, so that it can read the answer.
LINGER_SECS = 2.0


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
        self._is_refused = False

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
        head = answer_head(problem.status, TEXT, len(body))
        self.transport.write(head + b"connection: close\r\n\r\n" + body)
        self._is_refused = True
        self.transport.write_eof()
        self.listener.loop.call_later(LINGER_SECS, self.transport.close)

    # ---- callbacks of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.last_active = self.listener.loop.time()
        self.listener.opened(self)

    def data_received(self, data: bytes) -> None:
        self.last_active = self.listener.loop.time()
        if self._is_refused:
            return
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
