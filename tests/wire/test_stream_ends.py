"""How streams end when they do not end well, and what keeps silent ones open (FF-05, FF-06, FF-08, FF-21)."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from tests.waiting import until
from tests.wire.raw_client import BODY, STREAM_BODY, post
from tests.wire.scripted_worker import DONE, LAST_CHUNK, SSE_HEAD, ScriptedWorker, chunk, event, never_ends

GOOD = event("one") + event("two")
PING = b": ping\n\n"


def error_frame(payload: bytes) -> dict[str, object]:
    """The error that ends a stream, whose shape is checked on the way."""
    assert payload.endswith(DONE)
    frame = payload.removesuffix(DONE).split(b"\n\n")[-2].lstrip(b"\n")
    assert frame.startswith(b"data: ")
    error = json.loads(frame[6:])["error"]
    assert set(error) == {"message", "type"}
    assert error["type"] == "stream_error"
    return error


async def fin(connection):
    connection.close()


async def rst(connection):
    # What was written must be out before it, or the reset takes it away.
    await until(lambda: connection.transport.get_write_buffer_size() == 0)
    connection.reset()


async def break_behind(gateway, sent, seen, rest=b"", end=fin):
    """The client of a worker that ends its connection behind what it `sent`, once the client has `seen` that.

    Gives the client, the gateway and the worker.
    """
    goes_on = asyncio.Event()

    async def play(connection, request):
        await connection.send(sent)
        await goes_on.wait()
        await connection.send(rest)
        await end(connection)

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(STREAM_BODY))
    await client.until_received(seen)
    goes_on.set()
    return client, gw, worker


BREAKS = {
    "between chunks": b"",
    "in a chunk size": b"1f",
    "in a chunk": b'1f\r\ndata: {"par',
    "before a chunk's end": b"5\r\nhello",
    "bad chunk size": b"zz\r\n",
    "a chunk too long": b"5\r\nhelloworld\r\n",
    "size without digits": b"\r\n",
    "minus": b"-1\r\n",
}


@pytest.mark.parametrize("end", [fin, rst])
@pytest.mark.parametrize("rest", BREAKS.values(), ids=BREAKS)
async def test_broken_stream_ends_with_one_error_frame(gateway, rest, end):
    sent = SSE_HEAD + chunk(event("one")) + chunk(event("two"))
    client, gw, worker = await break_behind(gateway, sent, event("two"), rest, end)
    response = await client.read()
    assert response.status == 200
    assert response.body.startswith(GOOD)
    assert b"finish_reason" not in response.body
    assert response.body.count(b"stream_error") == response.body.count(b"[DONE]") == 1
    error_frame(response.body)
    await gw.settled()
    assert len(worker.requests) == 1, "never repeated once the client has bytes"
    assert (await client.ask(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")).status == 200, "still in step"


@pytest.mark.parametrize(
    "torn", [b"data: {", b"data: {}\n", b"data: {}\r\n", b"event: a", b": comm", b"\xf0\x9f"]
)
async def test_torn_frame_is_closed_before_the_error_frame(gateway, torn):
    client, _, _ = await break_behind(gateway, SSE_HEAD + chunk(GOOD + torn), torn)
    body = (await client.read()).body
    assert body.startswith(GOOD + torn + b"\n\n")
    error_frame(body)


@pytest.mark.parametrize("done", [DONE, b"data:[DONE]\n\n", b"data: [DONE]\r\n\r\n", b"data: [DONE]\n"])
async def test_no_frame_is_added_after_done(gateway, done):
    client, _, _ = await break_behind(gateway, SSE_HEAD + chunk(GOOD + done), b"[DONE]")
    body = (await client.read()).body
    assert body.startswith(GOOD + done)
    assert body.removeprefix(GOOD + done) in (b"", b"\n\n"), "at most the blank line that was missing"


@pytest.mark.parametrize("coding", ["chunked", "length"])
async def test_broken_stream_that_is_no_event_stream_is_cut(gateway, coding):
    """There is no frame to say it in, and the end must not look like one."""
    framing = b"transfer-encoding: chunked" if coding == "chunked" else b"content-length: 99"
    data = chunk(b"{}") if coding == "chunked" else b"{}"
    sent = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n" + framing + b"\r\n\r\n" + data
    client, _, _ = await break_behind(gateway, sent, b"{}")
    assert not (await client.until_over()).endswith(LAST_CHUNK)


async def test_breaks_do_not_open_the_breaker(gateway):
    async def play(connection, request):
        await connection.send(SSE_HEAD + chunk(GOOD))
        await until(lambda: clients[-1].total > 0)
        connection.close()

    clients = []
    gw = await gateway(ScriptedWorker(play), cb_failure_threshold=3)
    for _ in range(5):
        clients.append(await gw.client())
        error_frame((await clients[-1].ask(post(STREAM_BODY))).body)
    states = [line for line in gw.metrics.splitlines() if line.startswith("smg_worker_cb_state{")]
    assert [line.rsplit(" ", 1)[1] for line in states] == ["0"]


# ---- timeouts


@pytest.mark.parametrize("option", ["request_timeout_secs", "between_bytes_timeout_secs"])
@pytest.mark.parametrize("sent", [b"", chunk(GOOD), chunk(GOOD + b"data: {"), chunk(GOOD)[:-1]])
async def test_stalled_stream_ends_with_an_error_frame(gateway, option, sent):
    async def play(connection, request):
        await connection.send(SSE_HEAD + sent)
        await connection.until_ended()

    worker = ScriptedWorker(play)
    gw = await gateway(worker, **{option: 1})
    response = await gw.ask(post(STREAM_BODY))
    assert response.status == 200
    error_frame(response.body)
    await worker.exchanges[0].until_ended()
    await gw.settled()
    assert len(worker.requests) == 1


async def test_request_timeout_ends_a_stream_that_still_flows(gateway):
    worker = ScriptedWorker(never_ends)
    gw = await gateway(worker, request_timeout_secs=1, between_bytes_timeout_secs=0.9)
    body = (await gw.ask(post(STREAM_BODY))).body
    assert body.startswith(event("x") * 2)
    error_frame(body)
    await worker.exchanges[0].until_ended()


@pytest.mark.parametrize(
    "option", ["request_timeout_secs", "between_bytes_timeout_secs", "first_byte_timeout_secs"]
)
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_silent_worker_is_504(gateway, option, body):
    async def play(connection, request):
        await connection.until_ended()

    worker = ScriptedWorker(play)
    gw = await gateway(worker, **{option: 1}, retry_max_retries=2)
    response = await gw.ask(post(body))
    assert (response.status, response.code) == (504, "call_upstream_timeout")
    assert response.get("x-smg-error-code") == "call_upstream_timeout"
    assert len(worker.requests) == 2
    for connection in worker.exchanges:
        await connection.until_ended()
    await gw.settled()


async def test_stalled_plain_answer_is_504(gateway):
    async def play(connection, request):
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        await connection.until_ended()

    gw = await gateway(ScriptedWorker(play), between_bytes_timeout_secs=0.2, disable_retries=True)
    assert (await gw.ask(post())).code == "call_upstream_timeout"


async def test_first_byte_timeout_leaves_slow_streams_alone(gateway):
    """Its time is over when another request, which came later, has waited in vain."""
    go_on = asyncio.Event()

    async def play(connection, request):
        if b'"stream"' not in request.body:
            await connection.until_ended()
        await connection.send(SSE_HEAD)
        await go_on.wait()
        await connection.send(chunk(GOOD) + chunk(DONE) + LAST_CHUNK)

    gw = await gateway(ScriptedWorker(play), first_byte_timeout_secs=1, disable_retries=True)
    slow = await gw.client()
    await slow.send(post(STREAM_BODY))
    await slow.until_received(b"event-stream")
    assert (await gw.ask(post())).code == "call_upstream_timeout"
    go_on.set()
    assert (await slow.read()).body == GOOD + DONE


# ---- keep-alive comments


async def test_silence_is_filled_with_comments_between_frames(gateway):
    async def play(connection, request):
        await connection.send(SSE_HEAD)
        await connection.worker.pinged.acquire()
        await connection.send(chunk(event("one")))
        await connection.worker.pinged.acquire()
        await connection.send(chunk(event("two")) + chunk(DONE) + LAST_CHUNK)

    worker = ScriptedWorker(play)
    worker.pinged = asyncio.Semaphore(0)
    gw = await gateway(worker, sse_keepalive_secs=1)
    client = await gw.client()
    await client.send(post(STREAM_BODY))
    response = await client.read_head()
    payloads = []
    while piece := await client.read_piece():
        payloads.append(piece)
        if piece == PING:
            worker.pinged.release()
    assert response.status == 200
    assert b"".join(p for p in payloads if p != PING) == event("one") + event("two") + DONE
    assert payloads[0] == PING
    assert PING in payloads[payloads.index(event("one")) :]


async def silent_for_long(gateway, request, head):
    """A client that waits behind this head for longer than the interval of comments, and what ends its wait.

    That it was longer is seen by a second stream, which is between frames and gets a comment.
    """
    go_on = asyncio.Event()

    async def play(connection, _):
        if connection.worker.requests[1:]:
            await connection.send(SSE_HEAD + chunk(event("x")))
            await connection.until_ended()
        await connection.send(head)
        await go_on.wait()
        await connection.send(connection.worker.rest)

    worker = ScriptedWorker(play)
    gw = await gateway(worker, sse_keepalive_secs=1)
    silent, pinged = await gw.client(), await gw.client()
    await silent.send(request)
    await until(lambda: worker.requests)
    await pinged.send(post(STREAM_BODY))
    await pinged.until_received(PING)

    def ends(rest):
        worker.rest = rest
        go_on.set()

    return silent, ends


@pytest.mark.parametrize("torn", [chunk(b"data: {"), b"20\r\ndata: {", chunk(b"data: {}\n")])
async def test_no_comment_inside_a_frame(gateway, torn):
    silent, _ = await silent_for_long(gateway, post(STREAM_BODY), SSE_HEAD + torn)
    assert b"ping" not in silent.data


@pytest.mark.parametrize(
    ("body", "kind"), [(BODY, b"application/json"), (STREAM_BODY, b"application/x-ndjson")]
)
async def test_no_comment_in_what_is_no_event_stream(gateway, body, kind):
    head = b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\ntransfer-encoding: chunked\r\n\r\n"
    silent, ends = await silent_for_long(gateway, post(body), head)
    ends(chunk(b"{}") + LAST_CHUNK)
    assert (await silent.read()).body == b"{}"


async def test_a_compressed_event_stream_gets_no_plain_bytes(gateway):
    """Neither comments nor an error frame can be put among compressed bytes."""
    packed = gzip.compress(GOOD + DONE)
    head = SSE_HEAD[:-2] + b"content-encoding: gzip\r\n\r\n"
    silent, ends = await silent_for_long(gateway, post(STREAM_BODY), head)
    ends(chunk(packed) + LAST_CHUNK)
    response = await silent.read()
    assert response.get("content-encoding") == "gzip"
    assert gzip.decompress(response.body) == GOOD + DONE


async def test_a_broken_compressed_stream_is_cut(gateway):
    packed = gzip.compress(GOOD * 50)
    sent = SSE_HEAD[:-2] + b"content-encoding: gzip\r\n\r\n" + chunk(packed[:20])
    client, _, _ = await break_behind(gateway, sent, packed[:20])
    rest = await client.until_over()
    assert b"stream_error" not in rest
    assert not rest.endswith(LAST_CHUNK)
