"""Request bodies: their limit, how they may arrive, and senders that are slow or stop (FF-12, FF-13)."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import happened, until
from tests.wire.raw_client import BODY, CHAT, chat, chunked_post, get, head, post
from tests.wire.scripted_worker import ScriptedWorker

JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
EXPECT = "Expect: 100-continue"


def large(size: int) -> bytes:
    body = chat("x" * (size - len(chat(""))))
    assert len(body) == size
    return body


async def write_slowly(client, data: bytes, piece: int) -> None:
    await client.send(*(data[i : i + piece] for i in range(0, len(data), piece)))


# Around the sizes at which the way of receiving changes: in one piece, in pieces, in place, piped.
SIZES = [2_000, 16_384, 65_536, 65_537, 70_000, 131_072, 300_000, 1_048_576, 1_048_577, 3_000_000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("retries", [True, False], ids=["buffered", "piped"])
async def test_bodies_of_every_size_arrive_whole(gateway, size, retries):
    worker = ScriptedWorker()
    gw = await gateway(worker, disable_retries=not retries)
    client = await gw.client()
    body = large(size)
    for request in (post(body), chunked_post(body[: size // 2], body[size // 2 :])):
        await client.send(request + post())
        assert [(await client.read()).status for _ in range(2)] == [200, 200]
        assert worker.requests[-2].body == body
        assert worker.requests[-2].all("content-length") == [str(size)]
        assert worker.requests[-1].body == BODY


@pytest.mark.parametrize("piece", [999, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("retries", [True, False], ids=["buffered", "piped"])
async def test_bodies_in_pieces(gateway, piece, retries):
    worker = ScriptedWorker()
    gw = await gateway(worker, disable_retries=not retries)
    client = await gw.client()
    body = large(400_000)
    await write_slowly(client, post(body) + get("/health") + post(), piece)
    assert [(await client.read()).status for _ in range(3)] == [200, 200, 200]
    assert [one.body for one in worker.requests] == [body, BODY]


async def test_a_request_byte_by_byte(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    for request in (post(), chunked_post(BODY[:5], BODY[5:])):
        await write_slowly(client, request, 1)
        assert (await client.read()).status == 200
    assert {one.body for one in worker.requests} == {BODY}


async def test_30_megabytes_pass_by_default(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    body = large(30_000_000)
    assert (await gw.ask(post(body))).status == 200
    assert worker.requests[0].body == body


TOO_LARGE = {
    "with its body": post(large(3_000_000)),
    "only the head": post(large(3_000_000))[:200],
    "one byte too long": post(large(2_000_001))[:200],
    "waiting to be asked": head("POST", CHAT, JSON, "Content-Length: 3000000", EXPECT),
    "chunked": chunked_post(*[b"x" * 100_000] * 30),
    "chunked, without an end": chunked_post(*[b"x" * 100_000] * 21, end=b""),
    "the largest length": head("POST", CHAT, JSON, "Content-Length: 999999999999999999"),
}


@pytest.mark.parametrize("request_", TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.parametrize("retries", [True, False], ids=["buffered", "piped"])
async def test_too_large_is_413_at_once(gateway, request_, retries):
    worker = ScriptedWorker()
    gw = await gateway(worker, max_payload_size=2_000_000, disable_retries=not retries)
    client = await gw.client()
    await client.send(request_)
    response = await client.read()
    assert (response.status, response.code, response.closes) == (413, "request_body_too_large", True)
    assert response.get("x-smg-error-code") == "request_body_too_large"
    client.close()
    await gw.settled()
    assert worker.requests == []


async def test_exactly_the_limit_passes(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker, max_payload_size=200_000)
    for request in (
        post(large(200_000)),
        chunked_post(*[large(200_000)[i : i + 1000] for i in range(0, 200_000, 1000)]),
    ):
        assert (await gw.ask(request)).status == 200
    assert len(worker.requests) == 2


# ---- Expect


@pytest.mark.parametrize("size", [100, 100_000])
@pytest.mark.parametrize("retries", [True, False], ids=["buffered", "piped"])
async def test_expect_is_answered_when_the_body_is_wanted(gateway, size, retries):
    worker = ScriptedWorker()
    gw = await gateway(worker, disable_retries=not retries)
    client = await gw.client()
    await client.send(head("POST", CHAT, JSON, f"Content-Length: {size}", EXPECT))
    assert (await client.read()).status == 100
    assert (await client.ask(large(size))).status == 200
    assert worker.requests[0].body == large(size)
    assert worker.requests[0].get("expect") is None


async def test_expect_on_routes_of_aiohttp(gateway):
    gw = await gateway(ScriptedWorker())
    client = await gw.client()
    await client.send(head("POST", "/workers", JSON, "Content-Length: 2", EXPECT))
    assert (await client.read()).status == 100
    assert (await client.ask(b"{}")).status == 400
    assert (await client.ask(post())).status == 200


async def test_expect_with_the_body_already_there(gateway):
    """The interim answer may be left out (RFC 9110 10.1.1)."""
    gw = await gateway(ScriptedWorker())
    response = await gw.ask(post(BODY, EXPECT))
    assert response.status == 200


@pytest.mark.parametrize("body", [BODY, large(100_000)], ids=["small", "large"])
async def test_expect_is_not_answered_to_who_may_not_in(gateway, body):
    worker = ScriptedWorker()
    gw = await gateway(worker, api_key="k")
    response = await gw.ask(head("POST", CHAT, JSON, f"Content-Length: {len(body)}", EXPECT))
    assert (response.status, response.body) == (401, b"")
    assert response.closes, "the body that the client may send all the same is not read as a request"


# ---- slow senders


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat", post()[:60], b"\r\n"])
async def test_slow_heads_are_cut(gateway, sent):
    worker = ScriptedWorker()
    gw = await gateway(worker, header_read_timeout_secs=1)
    client = await gw.client()
    await client.send(sent)
    assert await client.until_over() == b""
    assert worker.requests == []


async def test_slow_heads_are_cut_later_too(gateway):
    gw = await gateway(ScriptedWorker(), header_read_timeout_secs=1)
    client = await gw.client()
    assert (await client.ask(post())).status == 200
    await client.send(post()[:30])
    await client.until_over()


async def test_a_dripping_head_gets_no_more_time(gateway):
    """A byte comes whenever another client has been answered."""
    gw = await gateway(ScriptedWorker(), header_read_timeout_secs=1)
    client, normal = await gw.client(), await gw.client()
    await client.send(b"GET /health HTTP/1.1\r\nX-A: ")
    while not client.is_over:
        assert (await normal.ask(get("/health"))).status == 200
        if not client.transport.is_closing():
            await client.send(b"a")


async def test_idle_connections_are_closed(gateway):
    gw = await gateway(ScriptedWorker(), idle_connection_timeout_secs=1)
    fast, slow = await gw.client(), await gw.client()
    assert (await fast.ask(post())).status == 200
    assert (await slow.ask(get("/health"))).status == 200
    await fast.until_over()
    await slow.until_over()


SENT = {
    "nothing": b"",
    "a little": BODY[:5],
    "much": large(200_000)[:100_000],
}


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
@pytest.mark.parametrize("coding", ["length", "chunked"])
@pytest.mark.parametrize("retries", [True, False], ids=["buffered", "piped"])
@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("stream_body_stall_timeout_secs", "request_body_stalled"),
        ("request_timeout_secs", "request_body_timeout"),
    ],
)
async def test_stalled_bodies_are_408(gateway, sent, coding, retries, option, code):
    worker = ScriptedWorker(plays_at_head=True)

    async def play(connection, request):
        await connection.until_ended()

    worker.play = play
    gw = await gateway(worker, disable_retries=not retries, **{option: 1})
    if coding == "length":
        request = head("POST", CHAT, JSON, "Content-Length: 200000") + sent
    else:
        request = head("POST", CHAT, JSON, CHUNKED) + (b"%x\r\n" % 200_000 + sent if sent else b"")
    client = await gw.client()
    await client.send(request)
    response = await client.read()
    assert (response.status, response.code, response.closes) == (408, code, True)
    client.end_sending()
    await client.until_over()
    await gw.settled()
    for connection in worker.exchanges:
        await connection.until_ended()


async def test_a_body_that_ends_early_is_no_request(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for request in (post()[:-3], chunked_post(BODY, end=b""), post(large(200_000))[:-3]):
        client = await gw.client()
        await client.send(request)
        client.end_sending()
        await client.until_over()
    await gw.settled()
    assert worker.requests == []


async def test_slow_connections_leave_the_others_alone(gateway):
    gw = await gateway(ScriptedWorker(), header_read_timeout_secs=1, stream_body_stall_timeout_secs=1)
    slow = [await gw.client() for _ in range(150)]
    for number, client in enumerate(slow):
        await client.send((b"", post()[:40], post()[:-5])[number % 3])
    normal = await gw.client()
    while not all(client.is_over for client in slow):
        assert (await normal.ask(post())).status == 200
    assert sum(b"request_body_stalled" in client.data for client in slow) == 50


# ---- piped bodies


async def test_a_piped_body_reaches_the_worker_before_its_end(gateway):
    seen = asyncio.Event()

    async def play(connection, request):
        await until(lambda: connection.received > 100_000)
        seen.set()
        await until(lambda: connection.received >= 3_000_000)
        await connection.answer()
        connection.close()

    worker = ScriptedWorker(play, plays_at_head=True)
    gw = await gateway(worker)
    client = await gw.client()
    request = post(large(3_000_000))
    await client.send(request[:200_000])
    await happened(seen)
    assert (await client.ask(request[200_000:])).status == 200
    assert (await client.ask(post(BODY, target="/nope"))).status == 404


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "503 Service Unavailable"])
async def test_a_worker_that_answers_a_piped_body_early(gateway, status):
    async def play(connection, request):
        await connection.answer(b'{"early":true}', status)
        await connection.until_ended()

    worker = ScriptedWorker(play, plays_at_head=True)
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(large(3_000_000))[:100_000])
    response = await client.read()
    assert (response.status, response.body, response.closes) == (int(status[:3]), b'{"early":true}', True)
    client.close()
    await gw.settled()
    assert len(worker.requests) == 1
    await worker.exchanges[0].until_ended()


async def answer_whole(connection):
    await connection.answer(b"{}", "200 OK")


async def answer_busy(connection):
    await connection.answer(b"{}", "503 Service Unavailable")


async def answer_garbage(connection):
    await connection.send(b"garbage\r\n\r\n")


async def answer_half(connection):
    await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc")
    connection.transport.write_eof()


@pytest.mark.parametrize("answering", [answer_whole, answer_busy, answer_garbage, answer_half])
async def test_a_worker_that_answers_early_and_reads_no_more_holds_no_connection(gateway, answering):
    """What the gateway has not yet sent then is nobody's: it must not wait for room to send it."""

    async def play(connection, request):
        connection.stop_reading()
        await answering(connection)
        await connection.until_ended()

    worker = ScriptedWorker(play, plays_at_head=True, receive_buffer=4096)
    gw = await gateway(worker, enable_igw=True)
    response = await gw.ask(post(large(8_000_000)))
    assert response.status in (200, 502, 503)
    await until(lambda: gw.counts.upstreams == 0, "no connection to the worker is left")


async def test_a_body_of_very_small_chunks(gateway):
    body = large(300_000)
    worker = ScriptedWorker()
    gw = await gateway(worker)
    assert (await gw.ask(chunked_post(*(body[at : at + 2] for at in range(0, len(body), 2))))).status == 200
    assert worker.requests[0].body == body


async def test_a_piped_body_whose_worker_dies_is_502_and_not_repeated(gateway):
    async def play(connection, request):
        connection.reset()

    workers = [ScriptedWorker(play, plays_at_head=True) for _ in range(2)]
    gw = await gateway(*workers)
    client = await gw.client()
    await client.send(post(large(3_000_000))[:100_000])
    response = await client.read()
    assert (response.status, response.code) == (502, "call_upstream_request_error")
    assert sum(len(worker.requests) for worker in workers) == 1


async def test_large_bodies_are_edited_and_refused_like_small_ones(gateway):
    worker = ScriptedWorker()
    client = await (await gateway(worker, policy="cache_aware")).client()
    for size in (2_000, 300_000, 6_000_000):
        body = large(size)
        edited = body.replace(b'{"', b'{"max_tokens":7,"', 1)
        await client.send(post(edited) + post(body[:-1] + b"]"))
        assert (await client.read()).status == 200
        assert worker.requests[-1].body == edited.replace(b"max_tokens", b"max_completion_tokens")
        refused = await client.read()
        assert refused.status == 400
        assert f"at line 1 column {size}".encode() in refused.body
