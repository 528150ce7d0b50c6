"""The data plane behind aiohttp, for `--data-path aiohttp`: the same exchanges, begun by a handler.

The exchange's coroutine and its worker's bytes go the way they always go; a `Carrier` takes the request's
body from aiohttp to the exchange, and the answer from the exchange to an aiohttp response. The ingress gives
aiohttp the body when the exchange asks for it, so a middleware cannot read it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from smg import errors
from smg._fast.exchange import Exchange
from smg._fast.webreply import WebReply
from smg.api.surfaces import SURFACES
from smg.server.deps import shown_path
from smg.server.handover import HandedOver

Serve = Callable[[Exchange], Coroutine[Any, Any, None]]

_ROUTES = {surface.path: surface for surface in SURFACES}
_CHUNKED = -1
_GONE_STATUS = 499


class DataPlane:
    """Answers the POSTs of the data plane that the ingress lends; `serve` carries their exchanges."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    async def answer(self, request: web.Request) -> web.StreamResponse:
        connection = request.protocol
        if not isinstance(connection, HandedOver) or not connection.ingress.lends:
            # Its path is not spelled as the ingress knows it.
            raise errors.not_implemented(f"POST {shown_path(request)}")
        return await Carrier(request, connection).carry(_ROUTES[request.path], self._serve)


async def ask_later(request: web.Request) -> None:
    """What to do when a client waits to be asked for its body: nothing, its exchange does it."""


class ExchangeAnswer(web.StreamResponse):
    """A response whose head the exchange has written; `head` is None when there is nobody to answer."""

    def __init__(self, status: int, reason: bytes, head: bytes | None, length: int, keep: bool) -> None:
        super().__init__(status=status, reason=reason.decode("latin-1"))
        self._head = head
        self._length = length
        self._keep_alive = keep

    def cut(self) -> None:
        """There will be no more of it."""
        self._head = None

    async def _prepare_headers(self) -> None:
        if self._head is None:
            raise ConnectionResetError

    async def _write_headers(self) -> None:
        writer = self._payload_writer
        assert self._head is not None and writer is not None
        # What others want to say goes behind what the exchange says.
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        await writer.write(self._head[:-2] + more.encode("utf-8", "surrogateescape") + b"\r\n")
        if self._length == _CHUNKED:
            writer.enable_chunking()

    async def write_eof(self, data: bytes = b"") -> None:
        if self._head is None:
            raise ConnectionResetError
        if self._payload_writer is not None:
            await self._payload_writer.drain()
        await super().write_eof(data)


class Carrier:
    """Between one exchange and aiohttp's request and response."""

    def __init__(self, request: web.Request, connection: HandedOver) -> None:
        self._request = request
        self._connection = connection
        self._reply = WebReply(connection.ingress, self)
        self._answer: ExchangeAnswer | None = None
        self._pieces: deque[bytes] = deque()
        self._is_whole = False
        self._is_cut = False
        self._news: asyncio.Future[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._reading: asyncio.Task[None] | None = None

    async def carry(self, route: Any, serve: Serve) -> web.StreamResponse:
        """The exchange from its beginning until the client has taken its answer, or is gone."""
        self._connection.carrier = self
        try:
            self._reply.begin(route, serve)
            await self._deliver()
        except ConnectionError:
            self._is_cut = True
        finally:
            self._connection.carrier = None
            if self._reading is not None:
                self._reading.cancel()
            self._reply.close()
        if self._answer is None:
            return ExchangeAnswer(_GONE_STATUS, b"", None, 0, False)
        if self._is_cut:
            self._answer.cut()
        return self._answer

    async def _deliver(self) -> None:
        while self._answer is None and not self._is_cut:
            await self._wait()
        if self._answer is not None and not self._is_cut:
            await self._answer.prepare(self._request)
        while not self._is_cut and self._answer is not None:
            while self._pieces:
                await self._answer.write(self._pieces.popleft())
            if self._is_whole:
                await self._answer.write_eof()
                return
            await self._wait()

    async def _wait(self) -> None:
        """For the next act of the exchange; it may have come while something was written."""
        if self._pieces or self._is_whole or self._is_cut:
            return
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # ---- what the reply asks for: the body

    def read_body(self) -> None:
        """Give the reply the body, as it comes."""
        content = self._request.content
        if content.is_eof():
            self._reply.body_piece(content.read_nowait())
            self._reply.body_end()
        else:
            self._reading = asyncio.create_task(self._read_on())

    async def _read_on(self) -> None:
        content = self._request.content
        try:
            while piece := await content.readany():
                self._reply.body_piece(piece)
                await self._may_read.wait()
        except (ConnectionError, web.RequestPayloadError, RuntimeError):
            # When the connection was lost, the exchange knows it already.
            self._reply.body_failed()
        else:
            self._reply.body_end()

    def pause_body(self) -> None:
        self._may_read.clear()

    def resume_body(self) -> None:
        self._may_read.set()

    # ---- and the answer

    def start(self, status: int, reason: bytes, head: bytes, length: int, keep: bool) -> None:
        self._answer = ExchangeAnswer(status, reason, head, length, keep)
        self._tell()

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._tell()

    def end(self) -> None:
        self._is_whole = True
        self._tell()

    def cut(self) -> None:
        """The connection is gone, or will be in a moment."""
        self._is_cut = True
        self._pieces.clear()
        self._tell()
