"""An engine of the Realtime API: what its sockets do is a test's coroutine; what they heard is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSMessage, WSMsgType, web

from tests.waiting import BOUND_S
from tests.wire.fake_engine import FakeEngine
from tests.wire.live_gateway import LiveGateway

Play = Callable[["Heard"], Awaitable[None]]


class Heard:
    """One session as the engine sees it."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self.request = request
        self.socket = socket
        self.messages: list[WSMessage] = []
        self.ended = asyncio.Event()

    async def next(self) -> WSMessage:
        async with asyncio.timeout(BOUND_S):
            message = await self.socket.receive()
        self.messages.append(message)
        return message

    @property
    def close_code(self) -> int | None:
        """What the gateway closed with."""
        return next((m.data for m in self.messages if m.type is WSMsgType.CLOSE), None)


async def echo(heard: Heard) -> None:
    """Sends every message back as it came, answers pings, and closes when it is told to."""
    while True:
        message = await heard.next()
        if message.type is WSMsgType.PING:
            await heard.socket.pong(message.data)
        elif message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
            await heard.socket.close()
            return
        elif message.data == "bye":
            await heard.socket.close(code=4001, message=b"as you wish")
            return
        elif message.data == "reset":
            assert heard.request.transport is not None
            heard.request.transport.abort()
            return
        else:
            data = message.data.encode() if isinstance(message.data, str) else message.data
            await heard.socket.send_frame(data, message.type)


class RealtimeWorker(FakeEngine):
    """`refusal`: the status an upgrade is answered with instead."""

    def __init__(self, *models: str, play: Play = echo, **options: Any) -> None:
        super().__init__(*(models or ("m",)), **options)
        self.play = play
        self.refusal: int | None = None
        self.sessions: list[Heard] = []
        self.answers["/v1/realtime"] = self._session

    async def _session(self, request: web.Request) -> web.StreamResponse:
        if self.refusal is not None:
            return web.Response(status=self.refusal, headers={"Location": f"{self.url}/elsewhere"})
        socket = web.WebSocketResponse(autoping=False, autoclose=False, max_msg_size=0, timeout=BOUND_S)
        await socket.prepare(request)
        heard = Heard(request, socket)
        self.sessions.append(heard)
        try:
            await self.play(heard)
        finally:
            heard.ended.set()
        return socket


def label(live: LiveGateway, *workers: FakeEngine) -> None:
    """Make workers those of the Realtime API."""
    for worker in workers:
        live.worker(worker).labels["realtime"] = "true"  # type: ignore[arg-type]
