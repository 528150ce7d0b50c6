"""The queue for permits as its users met it elsewhere: FF-25, FF-26; and what tenants are charged: FF-04."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.raw_client import BODY, STREAM_BODY, get, post
from tests.wire.scripted_worker import SSE_HEAD, Connection, Request, ScriptedWorker, chunk, event
from tests.wire.test_limits import Patient


async def test_a_permit_lasts_as_long_as_the_stream(gateway: Start) -> None:
    """FF-25: two streams at work, a third request waits and is told so, the next are refused at once."""
    held: list[Connection] = []

    async def begins(connection: Connection, request: Request) -> None:
        held.append(connection)
        await connection.send(SSE_HEAD, chunk(event("begun")))
        await connection.until_ended()

    worker = ScriptedWorker(begins)
    gw = await gateway(worker, max_concurrent_requests=2, queue_size=1, queue_timeout_secs=1)
    permits = gw.server.guards.permits
    streams = [await gw.client() for _ in range(2)]
    for number, client in enumerate(streams, start=1):
        await client.send(post(STREAM_BODY))
        await until(lambda number=number: len(held) == number, "the stream has begun")
    third = await gw.client()
    await third.send(post())
    await until(lambda: permits.snapshot()["waiting"] == 1)
    for _ in range(2):
        refused = await gw.ask(post())
        assert (refused.status, refused.code) == (429, "admission_queue_full")
    for path in ("/health", "/v1/models"):
        assert (await gw.ask(get(path), "GET")).status == 200
    late = await third.read()
    assert (late.status, late.code) == (503, "admission_queue_timeout")
    assert permits.in_flight == 2
    for client in streams:
        client.reset()
    await until(lambda: permits.in_flight == 0)


async def test_the_queue_is_bounded_and_first_in_first_out(gateway: Start) -> None:
    """FF-26: 200 at once before two slots and a queue of 50."""
    worker = Patient()
    gw = await gateway(worker, max_concurrent_requests=2, queue_size=50, queue_timeout_secs=30)
    permits = gw.server.guards.permits
    clients = []
    for number in range(200):
        client = await gw.client()
        clients.append(client)
        await client.send(post(BODY, f"X-Request-ID: {number}"))
        arrived = number + 1
        await until(
            lambda arrived=arrived: permits.allowed + permits.rejected + len(permits.line) == arrived,
            "it has come",
        )
        assert len(permits.line) <= 50
    assert (permits.in_flight, len(permits.line), permits.rejected) == (2, 50, 148)
    for served in range(1, 53):
        worker.go_on.release()
        # Both slots are at work again for as long as anyone waits.
        expected = (min(2 + served, 52), min(2, 52 - served))
        await until(
            lambda expected=expected: (permits.allowed, permits.in_flight) == expected, "the next is at work"
        )
    statuses = [(await client.read()).status for client in clients]
    assert statuses == [200] * 52 + [429] * 148
    assert [int(request.get("x-request-id")) for request in worker.requests] == list(range(52))
    await gw.settled()
    assert permits.in_flight == len(permits.line) == 0


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":6,"total_tokens":17}}\n\n'
STREAM = b'data: {"choices":[{"delta":{"content":"x"}}],"usage":null}\n\n' + USAGE + b"data: [DONE]\n\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 61, 1000])
async def test_what_a_tenant_is_charged_does_not_depend_on_reads(
    gateway: Start, tmp_path: Path, size: int
) -> None:
    """FF-04: the usage of a stream counts once and whole, however the worker's pieces fall."""

    async def streams(connection: Connection, request: Request) -> None:
        await connection.send(SSE_HEAD, *(chunk(STREAM[i : i + size]) for i in range(0, len(STREAM), size)))
        await connection.send(chunk(b""))

    limits = tmp_path / "limits.yaml"
    limits.write_text(
        json.dumps({"default_policy": {"tokens_per_minute": 100_000, "requests_per_minute": 1000}})
    )
    gw = await gateway(
        ScriptedWorker(streams), tenant_rate_limit_enabled=True, tenant_rate_limit_config=str(limits)
    )
    for count in (1, 2):
        response = await gw.ask(post(STREAM_BODY))
        assert response.body == STREAM
        await until(lambda count=count: gw.server.guards.tenants.spent == 17 * count, "it is settled")
    assert "smg_tenant_tokens_total 34" in gw.metrics
    assert gw.server.guards.tenants.allowed == 2
