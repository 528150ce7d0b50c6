"""Streams are relayed as they are: any bytes, cut anywhere, of any size (FF-01, FF-02, FF-03)."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.waiting import happened
from tests.wire.live_gateway import running
from tests.wire.raw_client import STREAM_BODY, post
from tests.wire.scripted_worker import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Connection,
    Request,
    ScriptedWorker,
    chunk,
    event,
)

SPELLINGS = {
    "mark and comment": b"\xef\xbb\xbf: hi\n\ndata: {}\n\n",
    "CR LF": b'data: {"a":1}\r\n\r\ndata: {"a":2}\r\n\r\n',
    "CR": b'data: {"a":1}\r\rdata: {"a":2}\r\r',
    "no space": b'data:{"a":1}\n\n',
    "all fields": b"event: message\nid: 7\nretry: 10\ndata: {}\n\n",
    "empty data": b"data:\n\n",
    "two lines": b'data: {"a":\ndata: 1}\n\n',
    "not UTF-8": b"data: \xff\xfe\xe9\n\n",
    "NUL": b"data: a\x00b\n\n",
    "done with CR LF": b"data: {}\n\ndata: [DONE]\r\n\r\n",
    "no frames at all": b"hello",
    "surrogate halves": b"data: \xed\xa0\xbd\n\n",
    "looks like a chunk": b"data: 0\r\n\r\n",
}
TEXT = event("hé😀你") + DONE


def sends(*writes: bytes):
    async def play(connection: Connection, request: Request) -> None:
        await connection.send(*writes)

    return play


@pytest.mark.parametrize("payload", SPELLINGS.values(), ids=SPELLINGS)
async def test_every_spelling_passes(gateway, payload):
    worker = ScriptedWorker(sends(SSE_HEAD, chunk(payload), LAST_CHUNK))
    gw = await gateway(worker)
    assert (await gw.ask(post(STREAM_BODY))).body == payload


@pytest.mark.parametrize("payload", SPELLINGS.values(), ids=SPELLINGS)
async def test_every_spelling_passes_byte_by_byte(gateway, payload):
    worker = ScriptedWorker(
        sends(SSE_HEAD, *(chunk(payload[i : i + 1]) for i in range(len(payload))), LAST_CHUNK)
    )
    gw = await gateway(worker)
    assert (await gw.ask(post(STREAM_BODY))).body == payload


async def test_every_split_of_the_wire_in_two(gateway):
    wire = SSE_HEAD + chunk(TEXT[:9]) + chunk(TEXT[9:]) + LAST_CHUNK
    writes: list[bytes] = []

    async def play(connection, request):
        await connection.send(writes[0])
        connection.worker.first_sent.set()
        await connection.worker.go_on.wait()
        await connection.send(writes[1])

    worker = ScriptedWorker(play)
    worker.first_sent, worker.go_on = asyncio.Event(), asyncio.Event()
    gw = await gateway(worker)
    client = await gw.client()
    for cut in range(1, len(wire)):
        writes[:] = wire[:cut], wire[cut:]
        worker.first_sent.clear()
        worker.go_on.clear()
        await client.send(post(STREAM_BODY))
        await happened(worker.first_sent)
        worker.go_on.set()
        assert (await client.read()).body == TEXT
    assert len(worker.exchanges) == 1, "the connection was used again each time"


async def test_one_byte_a_write(gateway):
    wire = SSE_HEAD + chunk(TEXT[:9]) + chunk(TEXT[9:]) + LAST_CHUNK
    gw = await gateway(ScriptedWorker(sends(*(wire[i : i + 1] for i in range(len(wire))))))
    assert (await gw.ask(post(STREAM_BODY))).body == TEXT


@pytest.mark.parametrize("in_chunks", [True, False], ids=["chunked", "length"])
async def test_one_very_long_frame(gateway, in_chunks):
    frame = b'data: {"arguments":"' + b"x" * 5_000_000 + b'"}\n\n' + DONE
    if in_chunks:
        writes = [SSE_HEAD, *(chunk(frame[i : i + 70_001]) for i in range(0, len(frame), 70_001)), LAST_CHUNK]
    else:
        size = b"content-length: %d\r\n\r\n" % len(frame)
        writes = [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + size, frame]
    gw = await gateway(ScriptedWorker(sends(*writes)), max_payload_size=1000)
    assert (await gw.ask(post(STREAM_BODY))).body == frame


FRAMINGS = st.sampled_from(["chunked", "length", "close", "extensions", "trailers"])
KINDS = st.sampled_from([b"text/event-stream", b"text/event-stream; charset=utf-8", b"application/x-ndjson"])


def coded(payload: bytes, cuts: list[int], framing: str, kind: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\n"
    if framing == "length":
        return head + b"content-length: %d\r\n\r\n" % len(payload) + payload
    if framing == "close":
        return head + b"connection: close\r\n\r\n" + payload
    edges = [0, *sorted({cut % (len(payload) + 1) for cut in cuts} - {0, len(payload)}), len(payload)]
    pieces = [payload[a:b] for a, b in itertools.pairwise(edges) if a < b]
    wire = head + b"transfer-encoding: chunked\r\n\r\n"
    for piece in pieces:
        extension = b";a=b" if framing == "extensions" else b""
        wire += b"%x%b\r\n%b\r\n" % (len(piece), extension, piece)
    return wire + (b"0\r\nX-Sum: 1\r\n\r\n" if framing == "trailers" else LAST_CHUNK)


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    payloads=st.lists(
        st.tuples(
            st.lists(st.sampled_from([*SPELLINGS.values(), TEXT]), max_size=3).map(b"".join),
            st.lists(st.integers(0, 400), max_size=6),
            st.lists(st.integers(0, 600), max_size=8),
            FRAMINGS,
            KINDS,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_chunks_in_any_writes_arrive_whole(payloads):
    """Any payload, cut into any chunks, written in any pieces, one stream after the other."""
    uvloop.run(relay_all(payloads))


async def relay_all(payloads):
    script: list[list[bytes]] = []

    async def play(connection: Connection, request: Request) -> None:
        await connection.send(*script[-1])
        if b"connection: close" in script[-1][0] + b"".join(script[-1]):
            connection.close()

    async with running(ScriptedWorker(play)) as gw:
        client = await gw.client()
        for payload, chunk_cuts, write_cuts, framing, kind in payloads:
            wire = coded(payload, chunk_cuts, framing, kind)
            edges = [0, *sorted({cut % len(wire) for cut in write_cuts} - {0}), len(wire)]
            script.append([wire[a:b] for a, b in itertools.pairwise(edges)])
            response = await client.ask(post(STREAM_BODY))
            assert (response.status, response.body) == (200, payload)


async def test_requests_in_any_writes_are_read_alike(gateway):
    """A client's request cut in two at every position."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    for request in (post(), post(target="/generate"), b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"):
        for cut in range(1, len(request)):
            await client.send(request[:cut])
            response = await client.ask(request[cut:])
            assert response.status == 200
