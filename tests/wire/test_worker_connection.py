"""Connections to workers: reuse, deaths, framings of answers, kinds of addresses (FF-19, FF-20, FF-22)."""

from __future__ import annotations

import asyncio
import gzip
import ssl

import pytest
import trustme

from tests.waiting import until
from tests.wire.raw_client import BODY, STREAM_BODY, get, post
from tests.wire.scripted_worker import DONE, LAST_CHUNK, SSE_HEAD, ScriptedWorker, chunk, event, plain


def sends(wire: bytes, close: bool = False):
    async def play(connection, request):
        await connection.send(wire)
        if close:
            connection.close()

    return play


# ---- reuse


@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_pooled_connection_that_died_is_never_noticed(gateway, body, end):
    """The worker ends each connection at the moment the next request comes on it."""

    async def play(connection, request):
        if connection.exchanges > 1:
            getattr(connection, end)()
        elif b"stream" in request.body:
            await connection.stream(event("x"))
        else:
            await connection.answer()

    worker = ScriptedWorker(play)
    gw = await gateway(worker, retry_max_retries=1)
    client = await gw.client()
    for _ in range(20):
        assert (await client.ask(post(body))).status == 200
    assert len(worker.requests) == 39


async def test_closing_after_each_answer_never_fails_a_request(gateway):
    async def play(connection, request):
        await connection.answer()
        connection.close()

    gw = await gateway(ScriptedWorker(play), retry_max_retries=1)
    client = await gw.client()
    for _ in range(100):
        assert (await client.ask(post())).status == 200
    await until(lambda: gw.counts.upstreams == 0)


async def test_a_fresh_connection_that_dies_is_not_repeated_in_silence(gateway):
    async def play(connection, request):
        connection.close()

    worker = ScriptedWorker(play)
    gw = await gateway(worker, retry_max_retries=1)
    response = await gw.ask(post())
    assert (response.status, response.code) == (502, "call_upstream_request_error")
    assert len(worker.requests) == 1


async def test_dying_after_the_first_byte_is_not_repeated_in_silence(gateway):
    async def play(connection, request):
        if connection.exchanges == 1:
            await connection.answer()
        else:
            await connection.send(b"HTTP/1.1 2")
            connection.close()

    worker = ScriptedWorker(play)
    gw = await gateway(worker, retry_max_retries=1)
    assert (await gw.ask(post())).status == 200
    assert (await gw.ask(post())).status == 502
    assert len(worker.requests) == 2


async def test_idle_connections_are_dropped_before_the_engine_does(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker, upstream_pool_idle_timeout_secs=1)
    assert (await gw.ask(post())).status == 200
    await worker.exchanges[0].until_ended()
    await until(lambda: gw.counts.upstreams == 0)
    assert (await gw.ask(post())).status == 200


async def test_a_connection_with_bytes_left_over_is_not_used_again(gateway):
    worker = ScriptedWorker(sends(plain(b"one") + plain(b"smuggled")))
    gw = await gateway(worker)
    for _ in range(3):
        assert (await gw.ask(post())).body == b"one"
    assert all(connection.exchanges == 1 for connection in worker.exchanges)


async def test_bytes_nobody_asked_for_close_an_idle_connection(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    await gw.ask(post())
    await worker.exchanges[0].send(plain(b"unasked"))
    await worker.exchanges[0].until_ended()
    assert (await gw.ask(post())).body == b'{"ok":true}'


async def test_300_streams_at_once(gateway):
    go_on = asyncio.Event()

    async def play(connection, request):
        await connection.send(SSE_HEAD + chunk(event("first")))
        await go_on.wait()
        await connection.send(chunk(DONE) + LAST_CHUNK)

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    clients = [await gw.client() for _ in range(300)]
    for client in clients:
        await client.send(post(STREAM_BODY))
    for client in clients:
        await client.until_received(b"first")
    assert gw.worker(worker).load == gw.counts.upstreams == 300
    go_on.set()
    for client in clients:
        assert (await client.read()).body == event("first") + DONE
        client.close()
    await gw.settled()
    await until(lambda: gw.counts.connections == 0)
    await until(lambda: gw.counts.upstreams <= 300)


# ---- framings of answers

OK = b"HTTP/1.1 200 OK\r\n"
ANSWERS = {
    "length": (plain(b"hello"), False, b"hello"),
    "length of zero": (plain(b""), False, b""),
    "chunked": (
        OK + b"transfer-encoding: chunked\r\n\r\n" + chunk(b"hel") + chunk(b"lo") + LAST_CHUNK,
        False,
        b"hello",
    ),
    "chunked in capitals": (
        OK + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n" + chunk(b"hello") + LAST_CHUNK,
        False,
        b"hello",
    ),
    "trailers": (
        OK + b"transfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\n",
        False,
        b"hello",
    ),
    "until the end": (OK + b"\r\nhello", True, b"hello"),
    "HTTP/1.0 until the end": (b"HTTP/1.0 200 OK\r\n\r\nhello", True, b"hello"),
    "HTTP/1.0 with a length": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", True, b"hello"),
    "HTTP/1.0, kept open": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        False,
        b"hello",
    ),
    "no reason": (b"HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nhello", False, b"hello"),
    "no reason and no blank": (b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello", False, b"hello"),
    "after a 100": (b"HTTP/1.1 100 Continue\r\n\r\n" + plain(b"hello"), False, b"hello"),
    "after several 1xx": (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3 + plain(b"hello"),
        False,
        b"hello",
    ),
    "connection closes": (OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello", True, b"hello"),
}


@pytest.mark.parametrize(("wire", "close", "payload"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_every_framing_of_an_answer(gateway, wire, close, payload, body):
    worker = ScriptedWorker(sends(wire, close))
    gw = await gateway(worker, retry_max_retries=1)
    client = await gw.client()
    for _ in range(3):
        response = await client.ask(post(body))
        assert (response.status, response.body) == (200, payload)
        assert response.get("connection") is None
    assert len(worker.exchanges) == (3 if close else 1)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified", "205 Reset Content"])
@pytest.mark.parametrize("lines", [b"", b"content-length: 0\r\n", b"content-type: text/event-stream\r\n"])
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_answers_without_a_body(gateway, status, lines, body):
    if status.startswith("205"):
        lines += b"" if b"length" in lines else b"content-length: 0\r\n"
    worker = ScriptedWorker(sends(b"HTTP/1.1 " + status.encode() + b"\r\n" + lines + b"\r\n"))
    gw = await gateway(worker)
    client = await gw.client()
    for _ in range(2):
        response = await client.ask(post(body))
        assert (response.status, response.body) == (int(status[:3]), b"")
        assert (await client.ask(get("/health"), "GET")).body == b"OK", "still in step"


MALFORMED = {
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "no version": b"200 OK\r\n\r\n",
    "other version": b"HTTP/2.0 200 OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status of letters": b"HTTP/1.1 abc OK\r\n\r\n",
    "status 0": b"HTTP/1.1 000 OK\r\n\r\n",
    "two lengths": OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "length and chunked": OK
    + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a negative length": OK + b"content-length: -5\r\n\r\nhello",
    "unknown coding": OK + b"transfer-encoding: gzip\r\n\r\nhello",
    "folded line": OK + b"x: 1\r\n y\r\ncontent-length: 0\r\n\r\n",
    "blank before the colon": OK + b"content-length : 0\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 0\n\n\r\n\r\n",
    "NUL": OK + b"x: a\x00b\r\ncontent-length: 0\r\n\r\n",
    "bare CR": OK + b"x: a\rb: c\r\ncontent-length: 0\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    "a head of 100 KiB": OK + b"x: " + b"a" * 100_000 + b"\r\n\r\n",
    "too many lines": OK + b"x: 1\r\n" * 200 + b"\r\n",
}


@pytest.mark.parametrize("wire", MALFORMED.values(), ids=MALFORMED)
async def test_answers_that_are_not_http_are_502(gateway, wire):
    worker = ScriptedWorker(sends(wire))
    gw = await gateway(worker, retry_max_retries=1)
    response = await gw.ask(post())
    assert (response.status, response.code) == (502, "call_upstream_request_error")
    await worker.exchanges[0].until_ended()


CUT = {
    "length": OK + b"content-length: 9\r\n\r\nhello",
    "chunked": OK + b"transfer-encoding: chunked\r\n\r\n" + chunk(b"hello"),
    "bad chunk": OK + b"transfer-encoding: chunked\r\n\r\n" + chunk(b"hello") + b"zz\r\n",
    "after the head": OK + b"content-length: 9\r\n\r\n",
}


@pytest.mark.parametrize("wire", CUT.values(), ids=CUT)
async def test_plain_answers_that_break_off_are_502(gateway, wire):
    worker = ScriptedWorker(sends(wire, close=True))
    gw = await gateway(worker, retry_max_retries=2)
    response = await gw.ask(post())
    assert (response.status, response.code) == (502, "read_response_body_failed")
    assert len(worker.requests) == 2


@pytest.mark.parametrize("coding", ["length", "chunked", "length that lies ahead"])
async def test_plain_answers_above_the_limit_are_502(gateway, coding):
    data = b"x" * 3000
    wire = (
        plain(data)
        if coding == "length"
        else OK + b"transfer-encoding: chunked\r\n\r\n" + chunk(data) + LAST_CHUNK
    )
    if coding == "length that lies ahead":
        wire = OK + b"content-length: 3000\r\n\r\n"
    worker = ScriptedWorker(sends(wire))
    gw = await gateway(worker, max_payload_size=2000)
    response = await gw.ask(post())
    assert (response.status, response.code) == (502, "upstream_response_too_large")
    assert len(worker.requests) == 1


@pytest.mark.parametrize("coding", ["length", "chunked"])
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_a_compressed_answer_keeps_bytes_and_coding(gateway, coding, body):
    packed = gzip.compress(b'{"ok":true}')
    head = OK + b"content-type: application/json\r\nContent-Encoding: gzip\r\n"
    if coding == "length":
        wire = head + b"content-length: %d\r\n\r\n" % len(packed) + packed
    else:
        wire = (
            head + b"transfer-encoding: chunked\r\n\r\n" + chunk(packed[:7]) + chunk(packed[7:]) + LAST_CHUNK
        )
    worker = ScriptedWorker(sends(wire))
    gw = await gateway(worker)
    response = await gw.ask(post(body, "Accept-Encoding: gzip"))
    assert response.get("content-encoding") == "gzip"
    assert gzip.decompress(response.body) == b'{"ok":true}'
    assert worker.requests[0].get("accept-encoding") is None


# ---- addresses


@pytest.mark.parametrize(
    ("options", "host"),
    [
        ({"prefix": "/a/b"}, "127.0.0.1"),
        ({"host": "::1"}, "[::1]"),
        ({"host": "::1", "prefix": "/v6"}, "[::1]"),
        ({"name": "localhost"}, "localhost"),
    ],
)
async def test_every_kind_of_address(gateway, options, host):
    worker = ScriptedWorker(**options)
    gw = await gateway(worker)
    response = await gw.ask(post())
    assert response.status == 200
    assert response.get("x-smg-routed-worker-id") == worker.url
    seen = worker.requests[0]
    assert seen.target == options.get("prefix", "") + "/v1/chat/completions"
    assert seen.get("host") == f"{host}:{worker.port}"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def worker_tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_https_workers(gateway, tmp_path, authority, name, body):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    worker = ScriptedWorker(name=name)
    await worker.start(worker_tls(authority, name))
    gw = await gateway(worker, ca_cert_paths=(str(tmp_path / "ca.pem"),))
    for _ in range(3):
        response = await gw.ask(post(body))
        assert response.status == 200
    assert response.get("x-smg-routed-worker-id") == f"https://{name}:{worker.port}"
    assert len(worker.exchanges) == 1


@pytest.mark.parametrize("trouble", ["unknown authority", "other name"])
async def test_https_workers_are_checked(gateway, tmp_path, authority, trouble):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issuer = trustme.CA() if trouble == "unknown authority" else authority
    worker = ScriptedWorker()
    await worker.start(worker_tls(issuer, "other.example" if trouble == "other name" else "127.0.0.1"))
    gw = await gateway(worker, wait=False, ca_cert_paths=(str(tmp_path / "ca.pem"),))
    tried = gw.worker(worker)
    await until(lambda: (job := gw.server.registrar.find_job(tried.id)) and job.message)
    assert gw.server.registry.ready_count == 0
    assert worker.requests == []
