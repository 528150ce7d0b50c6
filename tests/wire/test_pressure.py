"""Who does not read stops who writes: memory stays bounded in both directions (FF-07, FF-33)."""

from __future__ import annotations

import asyncio
import gc
import random

from tests.waiting import until
from tests.wire.raw_client import BODY, STREAM_BODY, get, head, post
from tests.wire.scripted_worker import LAST_CHUNK, SSE_HEAD, ScriptedWorker, answers_ok, chunk, event

MEGABYTE = 1 << 20
BOUND = 20 * MEGABYTE
"""What may be under way between two ends, the kernel's buffers of two connections included."""


class Meter:
    """Writes as fast as it may and counts what it got rid of."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.written = 0
        self.is_stuck = False

    async def __call__(self, connection, request):
        piece = chunk(b"data: " + b"x" * 65_000 + b"\n\n")
        await connection.send(SSE_HEAD)
        while self.written < self.total:
            self.is_stuck = not connection._may_write.is_set()
            await connection.send(piece)
            self.is_stuck = False
            self.written += len(piece)
        await connection.send(LAST_CHUNK)


async def others_are_served(gw, count: int = 200) -> None:
    """A measure of time that does not depend on the machine: so many other exchanges."""
    client = await gw.client()
    for _ in range(count):
        assert (await client.ask(get("/v1/models"), "GET")).status == 200
    client.close()


async def test_a_client_that_does_not_read_stops_its_worker(gateway):
    meters = [Meter(260 * MEGABYTE) for _ in range(5)]
    waiting = list(meters)

    async def play(connection, request):
        await waiting.pop()(connection, request)

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    clients = [await gw.client(receive_buffer=65_536) for _ in meters]
    for client in clients:
        client.stop_reading()
        await client.send(post(STREAM_BODY))
    await until(lambda: all(meter.written for meter in meters))
    await others_are_served(gw)
    assert all(meter.written < BOUND for meter in meters)
    for client in clients:
        client.reset()
    await gw.settled()
    for connection in worker.exchanges:
        await connection.until_ended()


async def test_reading_on_goes_on_without_a_lost_byte(gateway):
    meter = Meter(20 * MEGABYTE)
    worker = ScriptedWorker(meter)
    gw = await gateway(worker)
    client = await gw.client(receive_buffer=65_536)
    client.stop_reading()
    await client.send(post(STREAM_BODY))
    await until(lambda: meter.written)
    await others_are_served(gw, 50)
    assert meter.written < BOUND
    client.read_on()
    body = (await client.read()).body
    assert len(body) == body.count(b"x") + 8 * body.count(b"data: ") >= 20 * MEGABYTE


async def test_a_worker_that_does_not_read_stops_its_client(gateway):
    """A large body that is piped is held in the sockets, not in the gateway."""

    async def play(connection, request):
        connection.stop_reading()
        await until(lambda: go_on)
        connection.read_on()
        await until(lambda: connection.received >= size)
        await connection.answer()
        connection.close()

    go_on: list[bool] = []
    size = 60 * MEGABYTE
    worker = ScriptedWorker(play, plays_at_head=True, receive_buffer=65_536)
    gw = await gateway(worker)
    client = await gw.client()
    client.transport.set_write_buffer_limits(high=1)
    await client.send(head("POST", "/generate", "Content-Type: application/json", f"Content-Length: {size}"))
    client.transport.write(b"x" * size)
    await until(lambda: worker.requests)
    await others_are_served(gw)
    assert client.transport.get_write_buffer_size() > size - BOUND
    go_on.append(True)
    assert (await client.read()).status == 200


async def test_a_client_that_pipelines_and_does_not_read_is_not_served_on(gateway):
    """Answers nobody reads must not pile up: the next request waits until they are gone."""

    async def play(connection, request):
        await connection.answer(b"y" * 60_000)

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    client = await gw.client(receive_buffer=65_536)
    client.stop_reading()
    count = 1000
    client.transport.write(post() * count)
    await until(lambda: len(worker.requests) > 1)
    await others_are_served(gw, 600)
    assert len(worker.requests) * 60_000 < BOUND
    client.read_on()
    for _ in range(count):
        assert len((await client.read()).body) == 60_000
    assert len(worker.requests) == count


async def test_streams_nobody_reads_do_not_pile_up_either(gateway):
    async def play(connection, request):
        await connection.stream(event("z" * 50_000))

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    client = await gw.client(receive_buffer=65_536)
    client.stop_reading()
    count = 1000
    client.transport.write(post(STREAM_BODY) * count)
    await until(lambda: len(worker.requests) > 1)
    await others_are_served(gw, 600)
    assert len(worker.requests) * 50_000 < BOUND
    client.reset()
    await gw.settled()


async def test_a_fast_client_is_not_held_up_by_a_stuck_one(gateway):
    meter = Meter(260 * MEGABYTE)

    async def play(connection, request):
        await (meter if len(worker.requests) == 1 else answers_ok)(connection, request)

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    stuck = await gw.client(receive_buffer=65_536)
    stuck.stop_reading()
    await stuck.send(post(STREAM_BODY))
    await until(lambda: meter.is_stuck)
    for _ in range(50):
        assert (await gw.ask(post(STREAM_BODY))).status == 200
    stuck.reset()
    await gw.settled()


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


async def test_a_long_run_does_not_grow(gateway):
    """Short requests, streams, clients that leave early and workers that reset, then the same again."""
    chance = random.Random(33)

    async def play(connection, request):
        if chance.random() < 0.02:
            connection.reset()
        elif b"stream" in request.body:
            await connection.stream(*[event("x")] * 3)
        else:
            await connection.answer()

    worker = ScriptedWorker(play)
    gw = await gateway(worker, cb_failure_threshold=10_000)

    async def visits(count: int) -> None:
        client = await gw.client()
        for _ in range(count):
            body = chance.choice((BODY, STREAM_BODY))
            if chance.random() < 0.1:
                await client.send(post(body))
                client.reset()
                client = await gw.client()
            else:
                await client.ask(post(body))
        client.close()
        gw.clients.clear()
        worker.requests.clear()
        worker.connections[:] = [one for one in worker.connections if not one.ended.is_set()]

    async def round_() -> tuple[int, int]:
        await asyncio.gather(*(visits(150) for _ in range(8)))
        await gw.settled()
        await until(lambda: gw.counts.connections == 0)
        gc.collect()
        return len(gc.get_objects()), resident_kib()

    await round_()
    objects, memory = await round_()
    for _ in range(3):
        more_objects, more_memory = await round_()
    assert more_objects - objects < 1500
    assert more_memory - memory < 10_000
    limits = gw.server.limits
    assert limits.request.armed == limits.body_stall.armed == limits.first_byte.armed == 0
    assert limits.header_read.armed == limits.idle.armed == limits.linger.armed == 0
