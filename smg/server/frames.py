"""Frames between two WebSockets: every message, ping and close of one goes to the other.

A socket is read no faster than the other one takes what it sends, and one that has been silent for long
is asked whether it is still there.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import NamedTuple

from aiohttp import ClientWebSocketResponse, WSCloseCode, WSMsgType, web

Socket = web.WebSocketResponse | ClientWebSocketResponse

# What may stand in a close frame: RFC 6455 section 7.4, and the codes registered since.
_SENDABLE = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})
_MOST_REASON_BYTES = 123


class Times(NamedTuple):
    """Seconds: `ask` after this much silence whether a side is there; it is `gone` after so much more;
    a frame may take `send` to be taken."""

    ask: float = 30.0
    gone: float = 90.0
    send: float = 300.0


class End(NamedTuple):
    """Why a session ended, in a close frame's words. `by`: who ended it."""

    by: str
    code: int
    reason: bytes = b""


class Side:
    """One of the two sockets. `frames` and `size` (bytes) count what came from it."""

    __slots__ = ("asked", "frames", "heard", "is_read", "name", "size", "socket")

    def __init__(self, name: str, socket: Socket) -> None:
        self.name = name
        self.socket = socket
        self.heard = time.monotonic()
        self.is_read = True
        self.asked = False
        self.frames = 0
        self.size = 0


class Session:
    """Two open sockets; `run` relays until one of them ends it, or `stop` does."""

    def __init__(
        self, client: web.WebSocketResponse, worker: ClientWebSocketResponse, times: Times | None = None
    ) -> None:
        self.client = Side("client", client)
        self.worker = Side("worker", worker)
        self._times = times or Times()
        self._stopped: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._question = os.urandom(8)

    def stop(self, code: int, reason: bytes) -> None:
        """Close both sides soon."""
        if not self._stopped.done():
            self._stopped.set_result(End("gateway", code, reason))

    async def run(self) -> End:
        """Relay; returns when both sockets are closed."""
        loop = asyncio.get_running_loop()
        pumps = [
            loop.create_task(self._pump(self.client, self.worker)),
            loop.create_task(self._pump(self.worker, self.client)),
        ]
        waited: list[asyncio.Future[End]] = [*pumps, self._stopped]
        end = End("gateway", WSCloseCode.INTERNAL_ERROR)
        try:
            while not any(one.done() for one in waited):
                await asyncio.wait(waited, timeout=self._times.ask, return_when=asyncio.FIRST_COMPLETED)
                await self._ask_the_silent()
            end = next(one.result() for one in waited if one.done())
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            closing = (_close(side, end) for side in (self.client, self.worker))
            await asyncio.gather(*closing, return_exceptions=True)
        return end

    async def _pump(self, source: Side, sink: Side) -> End:
        """Pass on what comes until it ends."""
        to, most_s = sink.socket, self._times.send
        while True:
            message = await source.socket.receive()
            source.heard = time.monotonic()
            source.asked = False
            kind, data = message.type, message.data
            if kind is WSMsgType.CLOSE:
                return closed_by(source.name, data, message.extra)
            if kind not in (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG):
                return _lost(source, data)
            if kind is WSMsgType.PONG and data == self._question:
                continue
            payload = data.encode() if kind is WSMsgType.TEXT else data
            source.frames += 1
            source.size += len(payload)
            source.is_read = False
            try:
                async with asyncio.timeout(most_s):
                    await to.send_frame(payload, kind)
            except TimeoutError:
                return End(sink.name, WSCloseCode.POLICY_VIOLATION, b"the other side does not read")
            except (ConnectionError, RuntimeError):
                return _lost(sink, None)
            source.is_read = True
            source.heard = time.monotonic()

    async def _ask_the_silent(self) -> None:
        """Ping who has been silent; end the session of who did not even answer that."""
        now = time.monotonic()
        for side in (self.client, self.worker):
            silent_s = now - side.heard
            # What a side has sent cannot be seen while the other one does not take it.
            if not side.is_read or silent_s < self._times.ask:
                continue
            if side.asked and silent_s >= self._times.ask + self._times.gone:
                self._end_silent(side)
            elif not side.asked:
                side.asked = True
                try:
                    async with asyncio.timeout(self._times.ask):
                        await side.socket.ping(self._question)
                except (TimeoutError, ConnectionError, RuntimeError):
                    self._end_silent(side)

    def _end_silent(self, side: Side) -> None:
        if not self._stopped.done():
            reason = f"the {side.name} does not answer".encode()
            self._stopped.set_result(End(side.name, WSCloseCode.GOING_AWAY, reason))


def closed_by(name: str, code: int, reason: str | None) -> End:
    """The end that a side asked for; a close frame without a code is an ordinary end."""
    if code not in _SENDABLE and not 3000 <= code <= 4999:
        code = WSCloseCode.OK
    return End(name, code, (reason or "").encode()[:_MOST_REASON_BYTES])


def _lost(side: Side, problem: object) -> End:
    """A side that ended without saying so, or broke the protocol."""
    code = getattr(problem, "code", None)
    if code == WSCloseCode.MESSAGE_TOO_BIG:
        return End(side.name, code, f"a message of the {side.name} is too large".encode())
    if side.name == "client":
        return End(side.name, WSCloseCode.GOING_AWAY, b"the client is gone")
    return End(side.name, WSCloseCode.INTERNAL_ERROR, b"the connection to the worker was lost")


async def _close(side: Side, end: End) -> None:
    """Begin or answer the closing handshake; aiohttp bounds how long it waits for the other half."""
    await side.socket.close(code=end.code, message=end.reason)
