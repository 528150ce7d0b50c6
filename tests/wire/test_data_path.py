"""Through aiohttp everything is as on the fast path, to the byte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from smg.config.model import DATA_PATHS
from tests.waiting import until
from tests.wire.live_gateway import LiveGateway, running
from tests.wire.raw_client import BODY, CHAT, STREAM_BODY, chat, chunked_post, head, post
from tests.wire.scripted_worker import SSE_HEAD, ScriptedWorker, chunk, event, plain
from tests.wire.test_framing import BAD_CHUNKS, bad_heads
from tests.wire.test_legal import POSTS

JSON = "Content-Type: application/json"
COUNTED = (
    "smg_http_requests_total",
    "smg_http_responses_total",
    "smg_router_requests_total",
    "smg_worker_selection",
)
CODED = head("POST", CHAT, JSON, "Transfer-Encoding: chunked")
LAST = post(BODY, "X-Request-ID: last", "Connection: close")
"""Follows each request, so that everything that was answered before it is known to be there."""

REQUESTS = {
    **POSTS,
    **{name: request for name, (_, request) in bad_heads(CHAT).items()},
    "two content types": post(BODY, "Content-Type: text/plain"),
    "headers that may come once, twice": post(BODY, *("User-Agent: a", "Server: b", "ETag: c") * 2),
    "an old draft's header": post(BODY, "Sec-WebSocket-Key1: x"),
    "upgrade to a web socket": post(BODY, "Connection: Upgrade", "Upgrade: websocket"),
    "upgrade without a body": post(b"", "Connection: Upgrade", "Upgrade: websocket"),
    "content coding": post(BODY, "Content-Encoding: gzip"),
    "broken query": post(target=CHAT + "?%zz=%ff&;"),
    "broken cookie": post(BODY, "Cookie: a=b; =; \xe9"),
    "stream": post(STREAM_BODY),
    "stream, HTTP/1.0": post(STREAM_BODY, version="HTTP/1.0"),
    "stream, close": post(STREAM_BODY, "Connection: close"),
    "HTTP/1.0": post(version="HTTP/1.0"),
    "refused body": post(b"{}"),
    "refused type": post(BODY, "X-A: 1").replace(b"application/json", b"text/plain"),
    "refused, chunked": chunked_post(b"{", b"}"),
    "no body": head("POST", CHAT, JSON),
    "unknown model": post(chat(model="nope")),
    "expects": post(BODY, "Expect: 100-continue"),
    "too large": head("POST", CHAT, JSON, "Content-Length: 99999999999"),
    **{f"chunks: {name}": CODED + coded for name, coded in BAD_CHUNKS.items()},
    **{f"chunks, later: {name}": CODED + b"1\r\n{\r\n" + coded for name, coded in BAD_CHUNKS.items()},
    "a browser of a known origin": post(BODY, "Origin: https://a.example"),
    "a browser of another origin": post(BODY, "Origin: https://b.example"),
    "an ID of its own": post(BODY, "X-Request-ID: mine"),
}

ODD = ["X-UPPER: 1", "x-own:no blank", "X-Own:  two  blanks ", "Set-Cookie: a", "Set-Cookie: b", "X-L: é"]
ANSWERS = {
    "odd header lines": plain(b"{}", "200 Fine Indeed", *ODD),
    "no reason": plain(b"{}", "200 "),
    "an unknown status": plain(b"{}", "299 What"),
    "an error": plain(b'{"no":1}', "418 Teapot", *ODD),
    "no content": b"HTTP/1.1 204 No Content\r\nx-a: b\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\netag: 1\r\n\r\n",
    "empty": plain(b""),
    "large": plain(b"x" * 300_000),
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    + chunk(b"{")
    + chunk(b"}")
    + b"0\r\n\r\n",
    "server and date of its own": plain(b"{}", "200 OK", "Server: engine", "Date: now"),
    "a stream": SSE_HEAD
    + b"".join(chunk(event(one)) for one in "abc")
    + chunk(b"data: [DONE]\n\n")
    + b"0\r\n\r\n",
    "an empty stream": SSE_HEAD + b"0\r\n\r\n",
    "a stream of known length": plain(event("a"), kind="text/event-stream"),
}


def masked(text: bytes) -> bytes:
    """Without what differs from run to run."""
    return re.sub(rb"(x-request-id: |127\.0\.0\.1:|Date: )[^\r\n]*", rb"\1", text)


def with_last(request: bytes) -> bytes:
    """So that the connection ends, and it is seen that it was in step."""
    return request + LAST


async def told(gw: LiveGateway, worker: ScriptedWorker, *pieces: bytes) -> tuple[bytes, list[bytes]]:
    """What comes back until the connection ends, and what the worker got."""
    worker.requests.clear()
    client = await gw.client()
    await client.send(*pieces)
    answers = masked(await client.until_over())
    return answers, [masked(one.head) + one.body for one in worker.requests]


@asynccontextmanager
async def both_paths(**options: object) -> AsyncIterator[list[tuple[LiveGateway, ScriptedWorker]]]:
    """The same gateway twice, each with a worker of its own."""
    async with AsyncExitStack() as stack:
        made = []
        for data_path in DATA_PATHS:
            worker = ScriptedWorker()
            gw = await stack.enter_async_context(running(worker, data_path=data_path, **options))
            made.append((gw, worker))
        yield made


async def test_every_request_is_answered_with_the_same_bytes():
    differing = {}
    async with both_paths(cors_allowed_origins=("https://a.example",)) as paths:
        for name, request in REQUESTS.items():
            fast, aiohttp = [await told(gw, worker, with_last(request)) for gw, worker in paths]
            assert b"HTTP/1.1 " in fast[0]
            if fast != aiohttp:
                differing[name] = (fast, aiohttp)
        (fast_gw, _), (other, _) = paths
        assert other.counts.fast == 0
        assert other.counts.slow == fast_gw.counts.fast
        assert other.counts.refused == fast_gw.counts.refused
    assert differing == {}


async def test_every_split_is_answered_with_the_same_bytes():
    request = with_last(post(b"{}") + chunked_post(BODY) + post(STREAM_BODY))
    async with both_paths() as paths:
        whole = await told(*paths[0], request)
        for gw, worker in paths:
            assert await told(gw, worker, *(request[i : i + 1] for i in range(len(request)))) == whole
            for cut in range(1, len(request), 7):
                assert await told(gw, worker, request[:cut], request[cut:]) == whole


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_every_answer_of_a_worker_arrives_in_the_same_bytes(body, version):
    differing = {}
    async with both_paths() as paths:
        for name, answer in ANSWERS.items():

            async def play(connection, request, answer=answer):
                await connection.send(answer)

            for _, worker in paths:
                worker.play = play
            request = post(body, *([] if version == "HTTP/1.0" else ["Connection: close"]), version=version)
            fast, aiohttp = [await told(gw, worker, request) for gw, worker in paths]
            if fast != aiohttp:
                differing[name] = (fast, aiohttp)
    assert differing == {}


async def test_a_stream_is_passed_on_as_it_comes_without_tasks_of_its_own():
    made = []

    def making(loop, steps, **options):
        made.append(steps.__qualname__)
        return asyncio.Task(steps, loop=loop, **options)

    async def play(connection, request):
        await connection.send(SSE_HEAD)
        for number in range(20):
            await connection.send(chunk(b"data: %d\n\n" % number))
            await until(lambda number=number: b"data: %d\n" % number in client.data)
        await connection.send(b"0\r\n\r\n")

    async with running(ScriptedWorker(play), data_path="aiohttp") as gw:
        client = await gw.client()
        asyncio.get_running_loop().set_task_factory(making)
        await client.send(post(STREAM_BODY))
        await client.until_received(b"\r\n0\r\n\r\n")
    # At most aiohttp's two: the connection's and the handler's.
    assert len([name for name in made if "RequestHandler" in name or "Carrier" in name]) <= 2


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("stream_body_stall_timeout_secs", "request_body_stalled"),
        ("request_timeout_secs", "request_body_timeout"),
    ],
)
async def test_stalled_bodies_are_408(piped, option, code):
    async def play(connection, request):
        await connection.until_ended()

    worker = ScriptedWorker(play, plays_at_head=True)
    async with running(worker, data_path="aiohttp", disable_retries=piped, **{option: 1}) as gw:
        client = await gw.client()
        await client.send(head("POST", CHAT, JSON, "Content-Length: 200000") + b"{")
        response = await client.read()
        assert (response.status, response.code, response.closes) == (408, code, True)
        client.end_sending()
        await client.until_over()
        await gw.settled()


async def test_exchanges_are_counted_once():
    async with both_paths() as paths:
        texts = []
        for gw, worker in paths:
            for request in (post(), post(STREAM_BODY), post(b"{}")):
                await gw.ask(request)
            lines = gw.metrics.replace(worker.url, "W").splitlines()
            texts.append([one for one in lines if one.startswith(COUNTED)])
    assert texts[0] == texts[1]
    assert any(one.startswith('smg_http_requests_total{method="POST"') for one in texts[0])
