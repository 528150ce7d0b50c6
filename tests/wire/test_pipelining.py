"""Several requests in one packet, and connections that change between both paths."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.waiting import turns
from tests.wire.raw_client import BODY, CHAT, STREAM_BODY, chat, chunked_post, get, head, post
from tests.wire.scripted_worker import ScriptedWorker, answers_ok, event

JSON = "Content-Type: application/json"
BAD = b"{}"
KINDS = {
    "fast": (post(), 200),
    "stream": (post(STREAM_BODY), 200),
    "chunked": (chunked_post(BODY), 200),
    "refused": (post(BAD), 400),
    "slow": (get("/health"), 200),
    "slow with a body": (head("POST", "/workers", JSON, "Content-Length: 2") + BAD, 400),
    "slow, chunked": (
        head("POST", "/workers", JSON, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n\r\n",
        400,
    ),
    "not found": (get("/nope"), 404),
}


def shows(gw) -> tuple[int, int]:
    """Exchanges by way, as the metrics tell it."""
    lines = dict(line.rsplit(" ", 1) for line in gw.metrics.splitlines() if not line.startswith("#"))
    name = "smg_http_exchanges_total"
    return int(float(lines[name + '{way="fast"}'])), int(float(lines[name + '{way="slow"}']))


@pytest.mark.parametrize("order", list(itertools.permutations(["fast", "slow", "stream"])), ids="-".join)
async def test_every_order_in_one_packet(gateway, order):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(b"".join(KINDS[kind][0] for kind in order))
    for kind in order:
        response = await client.read()
        assert response.status == 200
        expected = {"fast": b'{"ok":true}', "slow": b"OK", "stream": event("Hello") + b"data: [DONE]\n\n"}
        assert response.body == expected[kind]
    assert shows(gw) == gw.ways(2, 1)


@pytest.mark.parametrize("pair", list(itertools.product(KINDS, repeat=2)), ids="-".join)
async def test_every_pair_in_one_packet_and_in_two(gateway, pair):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    one, two = (KINDS[kind] for kind in pair)
    whole = one[0] + two[0]
    for cut in (0, 1, len(one[0]) - 1, len(one[0]), len(one[0]) + 1, len(whole) - 1):
        client = await gw.client()
        await client.send(*filter(None, (whole[:cut], whole[cut:])))
        first = await client.read()
        assert first.status == one[1]
        assert not first.closes
        assert (await client.read()).status == two[1]
        assert not client.data
        client.close()


async def test_a_connection_comes_back_to_the_fast_path(gateway):
    gw = await gateway(ScriptedWorker())
    client = await gw.client()
    for i in range(5):
        assert (await client.ask(get("/health"))).status == 200
        assert (await client.ask(post())).status == 200
        assert shows(gw) == gw.ways(i + 1, i + 1)
    assert gw.counts.accepted == 1


async def test_requests_are_answered_in_order_and_one_by_one(gateway):
    """The second of two pipelined requests goes to a worker when the first was answered."""
    now: list[int] = []
    most: list[int] = []

    async def play(connection, request):
        now.append(1)
        most.append(len(now))
        await turns()
        now.pop()
        await connection.answer(request.body)

    gw = await gateway(ScriptedWorker(play))
    client = await gw.client()
    bodies = [chat(str(i)) for i in range(30)]
    await client.send(b"".join(post(body) for body in bodies))
    assert [(await client.read()).body for _ in bodies] == bodies
    assert set(most) == {1}


CLOSING = {
    "fast": post(BODY, "Connection: close"),
    "fast, list": post(BODY, "Connection: x, Close"),
    "fast, HTTP/1.0": post(BODY, version="HTTP/1.0"),
    "slow": get("/health", "Connection: close"),
    "slow, HTTP/1.0": get("/health", version="HTTP/1.0"),
    "stream": post(STREAM_BODY, "Connection: close"),
}


@pytest.mark.parametrize("request_", CLOSING.values(), ids=CLOSING)
@pytest.mark.parametrize(
    "after", [post(target="/generate"), get("/health"), b"\x00\xff"], ids=["fast", "slow", "junk"]
)
async def test_bytes_after_a_close_are_dropped(gateway, request_, after):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(request_ + after)
    response = await client.read()
    assert response.status == 200
    await client.until_over()
    assert not client.data
    assert all(one.target == CHAT for one in worker.requests)


async def test_many_pipelined_requests_behind_a_slow_one(gateway):
    """Far more than is kept ahead: the rest waits in the sockets, nothing is lost."""
    go_on = asyncio.Event()

    async def play(connection, request):
        await go_on.wait()
        await answers_ok(connection, request)

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    client = await gw.client()
    count = 3000
    await client.send(post() + get("/health") * 2 + post() * count)
    go_on.set()
    statuses = [(await client.read()).status for _ in range(count + 3)]
    assert statuses == [200] * (count + 3)
    assert len(worker.requests) == count + 1
