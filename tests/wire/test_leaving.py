"""A client that leaves frees everything that worked for it (FF-09, FF-10)."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.waiting import turns, until
from tests.wire.raw_client import BODY, STREAM_BODY, post
from tests.wire.scripted_worker import SSE_HEAD, ScriptedWorker, chunk, event, never_ends


def stays_silent(sent: bytes):
    async def play(connection, request):
        await connection.send(sent)
        await connection.until_ended()

    return play


PHASES = {
    "before the head": (BODY, b"", None),
    "before the head of a stream": (STREAM_BODY, b"", None),
    "in the head": (BODY, b"HTTP/1.1 200 OK\r\n", None),
    "in a plain body": (BODY, b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", None),
    "after a stream's head": (STREAM_BODY, SSE_HEAD, b"text/event-stream"),
    "between frames": (STREAM_BODY, SSE_HEAD + chunk(event("x")), b'"x"'),
    "in a chunk": (STREAM_BODY, SSE_HEAD + b"ff\r\ndata: half", b"half"),
}


@pytest.mark.parametrize("leave", ["close", "reset", "end_sending"])
@pytest.mark.parametrize(("body", "sent", "seen"), PHASES.values(), ids=PHASES)
async def test_the_workers_connection_ends_with_the_clients(gateway, body, sent, seen, leave):
    worker = ScriptedWorker(stays_silent(sent))
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(body))
    await until(lambda: worker.requests)
    if seen is not None:
        await client.until_received(seen)
    assert gw.worker(worker).load == 1
    getattr(client, leave)()
    await worker.exchanges[0].until_ended()
    await gw.settled()
    await until(lambda: gw.counts.upstreams == 0)
    assert gw.counts.client_left == 1
    assert len(worker.requests) == 1


@pytest.mark.parametrize("leave", ["close", "reset"])
async def test_leaving_while_frames_flow(gateway, leave):
    worker = ScriptedWorker(never_ends)
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(STREAM_BODY))
    await until(lambda: client.total > 2000)
    getattr(client, leave)()
    await worker.exchanges[0].until_ended()
    await gw.settled()


@pytest.mark.parametrize("leave", ["close", "reset"])
async def test_leaving_while_sending_a_body(gateway, leave):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for accepted, sent in enumerate((-1, 0, 5, len(BODY) - 1), 1):
        client = await gw.client()
        request = post(BODY)
        await client.send(request[: len(request) - len(BODY) + sent])
        await until(lambda accepted=accepted: gw.counts.accepted == accepted)
        getattr(client, leave)()
        await until(lambda: gw.counts.connections == 0)
        await gw.settled()
    assert worker.requests == []


async def test_leaving_while_a_large_body_is_received_in_place(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(b" " * 300_000)[:200_000])
    await until(lambda: gw.server.front.busy == 1)
    client.reset()
    await gw.settled()
    await until(lambda: gw.counts.connections == 0)
    assert worker.requests == []


async def test_leaving_while_waiting_for_the_next_attempt(gateway):
    async def play(connection, request):
        await connection.answer(b"{}", "503 Service Unavailable")

    worker = ScriptedWorker(play)
    gw = await gateway(worker, retry_initial_backoff_ms=30_000, retry_max_backoff_ms=30_000)
    client = await gw.client()
    await client.send(post())
    await until(lambda: worker.requests)
    await until(lambda: gw.worker(worker).load == 0)
    client.close()
    await gw.settled()
    assert len(worker.requests) == 1


async def test_a_pipelined_request_behind_a_client_that_left_is_not_served(gateway):
    worker = ScriptedWorker(stays_silent(SSE_HEAD))
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(STREAM_BODY) + post())
    await client.until_received(b"event-stream")
    client.reset()
    await worker.exchanges[0].until_ended()
    await gw.settled()
    assert len(worker.requests) == 1


async def test_many_clients_leave_in_any_phase(gateway):
    """Waves of four requests, dropped at moments that a seeded generator picks."""
    chance = random.Random(20)

    async def play(connection, request):
        for piece in (SSE_HEAD, *(chunk(event("x")) for _ in range(3))):
            await turns(chance.randrange(8))
            await connection.send(piece)
        await connection.send(b"0\r\n\r\n")

    workers = [ScriptedWorker(play), ScriptedWorker(play)]
    gw = await gateway(*workers)

    async def visit():
        client = await gw.client()
        await client.send(post(STREAM_BODY))
        await turns(chance.randrange(40))
        chance.choice((client.close, client.reset))()

    for _ in range(60):
        await asyncio.gather(*(visit() for _ in range(4)))
        gw.clients.clear()
    await gw.settled()
    await until(lambda: gw.counts.connections == 0)
    idle = sum(len(gw.worker(w).backend._pool.idle) for w in workers)
    await until(lambda: gw.counts.upstreams == idle)
    assert (await gw.ask(post(STREAM_BODY))).status == 200
