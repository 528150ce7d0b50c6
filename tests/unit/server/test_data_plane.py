"""Exchanges behind aiohttp's middlewares and signals, on real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg._fast.front import Front
from smg._fast.head import read_request_head
from smg._fast.ingress import Ingress
from smg._fast.limits import Counts
from smg.server.data_plane import DataPlane
from smg.server.deps import Handler
from smg.server.handover import acceptable, handing_over
from tests.fast.stage import refuse
from tests.fast.transports import NAMES, make_limits
from tests.waiting import happened, until
from tests.wire.raw_client import BODY, CHAT, RawClient, connect, post

Middle = Callable[[web.Request, Handler], object]
LARGE = b"x" * 3_000_000


class Plane:
    """Exchanges of one route: `serve` carries them, `middle` stands before the handler."""

    def __init__(self, port: int, front: Front, app: web.Application) -> None:
        self.port, self.front, self.app = port, front, app
        self.clients: list[RawClient] = []

    async def client(self) -> RawClient:
        self.clients.append(await connect(self.port))
        return self.clients[-1]


@asynccontextmanager
async def plane(serve, middle=None, sign=None, **limits: float) -> AsyncIterator[Plane]:
    loop = asyncio.get_running_loop()
    app = web.Application(middlewares=[] if middle is None else [web.middleware(middle)])
    app.add_routes([web.post(CHAT, DataPlane(serve).answer)])
    if sign is not None:
        app.on_response_prepare.append(sign)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    assert runner.server is not None
    made = make_limits(loop, **{**{f"{name}_s": 30.0 for name in NAMES}, **limits})
    front = Front(
        made,
        Counts(),
        routes={},
        lent=frozenset((CHAT.encode(),)),
        serve=serve,
        refuse=refuse,
        make_fallback=handing_over(runner.server, lambda: False),
    )
    server = await loop.create_server(lambda: Ingress(front), "127.0.0.1", 0)
    shown = Plane(server.sockets[0].getsockname()[1], front, app)
    try:
        yield shown
    finally:
        for client in shown.clients:
            client.transport.abort()
        await until(lambda: front.counts.connections == 0)
        server.close()
        await runner.cleanup()
        made.close()


async def echo(x: Exchange) -> None:
    await x.receive_body(1 << 30)
    assert x.received == fast.BODY_COMPLETE and x.body is not None
    x.answer(200, b"Fine", b"x-own:as is\r\n", x.body)


async def test_a_signal_can_add_headers() -> None:
    async def sign(request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X-Signed"] = "é"

    async with plane(echo, sign=sign) as here:
        client = await here.client()
        await client.send(post())
        await client.until_received(BODY)
        head, _, body = bytes(client.data).partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            b"HTTP/1.1 200 Fine",
            b"x-own:as is",
            b"x-request-id: ",
            b"content-length: %d" % len(BODY),
            "X-Signed: é".encode(),
        ]
        assert body == BODY


async def test_a_middleware_sees_the_answer_and_its_status() -> None:
    seen = []

    async def middle(request, handler):
        response = await handler(request)
        seen.append((response.status, response.reason, response.keep_alive))
        return response

    async with plane(echo, middle) as here:
        client = await here.client()
        assert (await client.ask(post())).body == BODY
        assert (await client.ask(post(BODY, "Connection: close"))).body == BODY
        await client.until_over()
    assert seen == [(200, "Fine", True), (200, "Fine", False)]


@pytest.mark.parametrize("body", [BODY, LARGE], ids=["small", "large"])
async def test_a_middleware_that_answers_by_itself(body: bytes) -> None:
    """The connection goes on: the body that nobody wanted is read and dropped."""
    refused = []

    async def middle(request, handler):
        if not refused:
            refused.append(request)
            return web.Response(status=429)
        return await handler(request)

    async with plane(echo, middle) as here:
        client = await here.client()
        assert (await client.ask(post(body))).status == 429
        assert (await client.ask(post(body))).body == body
        assert here.front.counts.accepted == 1


async def test_a_middleware_that_answers_before_the_body_has_come() -> None:
    async def middle(request, handler):
        return web.Response(status=429)

    async with plane(echo, middle) as here:
        client = await here.client()
        request = post(LARGE)
        await client.send(request[:300])
        assert (await client.read()).status == 429
        await client.send(request[300:] + post())
        assert (await client.read()).status == 429


async def test_a_middleware_that_loses_patience() -> None:
    """The exchange ends as if its client had left, and somebody else's answer reaches the client."""
    begun = asyncio.Event()
    ended: list[BaseException] = []

    async def serve(x: Exchange) -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            ended.append(error)
            raise

    async def middle(request, handler):
        running = asyncio.ensure_future(handler(request))
        await begun.wait()
        begun.clear()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return web.Response(status=504)

    async with plane(serve, middle) as here:
        client = await here.client()
        for count in (1, 2):
            assert (await client.ask(post())).status == 504
            await until(lambda count=count: len(ended) == count)
        assert here.front.counts.client_left == 0


async def test_the_client_leaves_while_a_middleware_waits() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    carried = []

    async def serve(x: Exchange) -> None:
        carried.append(x)
        await echo(x)

    async def middle(request, handler):
        begun.set()
        await go_on.wait()
        return await handler(request)

    async with plane(serve, middle) as here:
        client = await here.client()
        await client.send(post())
        await happened(begun)
        client.reset()
        await until(lambda: here.front.counts.connections == 0)
        go_on.set()
    assert carried == []


async def test_a_body_that_is_larger_than_aiohttp_buffers() -> None:
    async with plane(echo) as here:
        client = await here.client()
        for _ in range(2):
            assert (await client.ask(post(LARGE))).body == LARGE


HEADS = {
    "nothing twice": ([b"A: 1", b"Content-Type: x"], [b"A: 1", b"Content-Type: x"]),
    "a list": ([b"A: 1", b"A: 2"], [b"A: 1", b"A: 2"]),
    "two types": ([b"Content-Type: x", b"A: 1", b"content-type: y"], [b"Content-Type: x", b"A: 1"]),
    "three agents": ([b"User-Agent: x"] * 3, [b"User-Agent: x"]),
    "an old draft": ([b"Sec-WebSocket-Key1: x", b"A: 1"], [b"A: 1"]),
    "bytes": ([b"ETag: \xff", b"etag: 2", b"B:"], [b"ETag: \xff", b"B: "]),
}


@pytest.mark.parametrize(("lines", "kept"), HEADS.values(), ids=HEADS)
def test_what_aiohttp_would_refuse_is_taken_out(lines: list[bytes], kept: list[bytes]) -> None:
    first = [b"POST /x?a=b HTTP/1.1", b"Host: g"]
    head = read_request_head(b"\r\n".join([*first, *lines, b"", b""]))
    assert acceptable(head) == b"\r\n".join([*first, *kept, b"", b""])
