"""Limits over real sockets: what is answered when there is no permit or no budget, and who gives way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from smg.config.specs import TenantKey
from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import BODY, STREAM_BODY, RawClient, get, head, post
from tests.wire.scripted_worker import SSE_HEAD, Connection, Request, ScriptedWorker, chunk, event

BULK = "X-SMG-Priority: bulk"
SYSTEM = "X-SMG-Priority: System "
CLASS = (
    "{reserved_floor: 0, queue_size: 1, queue_timeout_secs: 1, starvation_threshold_secs: 9, "
    "can_preempt: true}"
)


class Patient(ScriptedWorker):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(self._play)
        self.go_on = asyncio.Semaphore(0)

    async def _play(self, connection: Connection, request: Request) -> None:
        async with asyncio.timeout(20):
            await self.go_on.acquire()
        await connection.answer()


@pytest.fixture
def scheduler_file(tmp_path: Path) -> str:
    path = tmp_path / "scheduler.yaml"
    classes = ", ".join(f"{name}: {CLASS}" for name in ("system", "interactive", "default", "bulk"))
    path.write_text(f"classes: {{{classes}}}\ntenant_policies: {{'header:low': {{max_class: bulk}}}}")
    return str(path)


@pytest.fixture
def tenants_file(tmp_path: Path) -> str:
    path = tmp_path / "tenants.yaml"
    scope = "tokens_per_minute: 100, requests_per_minute: "
    keys = ("header:red", "auth:blue", "ip:127.0.0.1")
    tenants = ", ".join(f"{{tenant_key: '{key}', {scope}1}}" for key in keys)
    path.write_text(f"default_policy: {{{scope}2}}\ntenants: [{tenants}]")
    return str(path)


def is_refused(response: Any, status: int, code: str, retry_after: str | None) -> bool:
    assert response.get("x-smg-error-code") == response.code == code
    assert response.get("retry-after") == retry_after
    error = response.json()["error"]
    assert error.keys() == {"type", "code", "message", "param"} and error["param"] is None
    phrase = {429: "Too Many Requests", 503: "Service Unavailable"}[status]
    return bool(response.status == status and error["type"] == phrase and error["message"])


async def test_without_a_queue(gateway: Start) -> None:
    worker = Patient()
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=0)
    first = await gw.client()
    await first.send(post())
    await until(lambda: worker.requests)
    for target in ("/v1/completions", "/generate", "/v1/embeddings", "/v1/rerank", "/v1/responses"):
        assert is_refused(await gw.ask(post(BODY, target=target)), 429, "admission_queue_full", "2")
    for path in ("/health", "/readiness", "/v1/models", "/workers"):
        assert (await gw.ask(get(path), "GET")).status == 200
    worker.go_on.release()
    assert (await first.read()).status == 200
    await gw.settled()
    assert gw.server.guards.permits.in_flight == 0
    assert 'smg_http_rate_limit_total{result="rejected"} 5' in gw.metrics
    assert "smg_admission_inflight 0" in gw.metrics


async def test_no_body_is_asked_for_before_there_is_a_permit(gateway: Start) -> None:
    worker = Patient()
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=1)
    first, second = await gw.client(), await gw.client()
    await first.send(post())
    await until(lambda: worker.requests)
    lines = ("Content-Type: application/json", f"Content-Length: {len(BODY)}", "Expect: 100-continue")
    await second.send(head("POST", "/v1/chat/completions", *lines))
    await until(lambda: gw.server.guards.permits.snapshot()["waiting"] == 1)
    assert second.total == 0
    worker.go_on.release()
    await first.read()
    assert (await second.read()).status == 100
    await second.send(BODY)
    worker.go_on.release()
    assert (await second.read()).status == 200


async def test_a_queue(gateway: Start) -> None:
    worker = Patient()
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=1, queue_timeout_secs=1)
    clients = [await gw.client() for _ in range(3)]
    permits = gw.server.guards.permits
    await clients[0].send(post())
    await until(lambda: permits.in_flight)
    await clients[1].send(post())
    await until(lambda: permits.snapshot()["waiting"])
    for _ in range(2):  # a body that is here already does not end the connection
        assert is_refused(await clients[2].ask(post(STREAM_BODY)), 429, "admission_queue_full", "2")
    assert is_refused(await clients[1].read(), 503, "admission_queue_timeout", "2")
    await clients[1].send(post())
    await until(lambda: permits.snapshot()["waiting"])
    clients[1].reset()
    await until(lambda: not permits.snapshot()["waiting"])
    worker.go_on.release()
    assert (await clients[0].read()).status == 200
    await gw.settled()
    assert len(worker.requests) == 1


async def test_one_gives_way_to_another(gateway: Start, scheduler_file: str) -> None:
    worker = Patient()
    gw = await gateway(
        worker,
        priority_scheduler_enabled=True,
        priority_scheduler_config=scheduler_file,
        priority_scheduler_default_max_class="system",
        trust_tenant_header=True,
    )
    scheduler: Any = gw.server.guards.permits
    assert scheduler.capacity == 64
    scheduler.set_capacity(1)
    low, high = await gw.client(), await gw.client()
    await low.send(post(BODY, BULK))
    await until(lambda: worker.requests)
    await high.send(post(BODY, SYSTEM))
    answer = await low.read()
    assert is_refused(answer, 503, "scheduler_preempted", "1") and answer.get("x-smg-preempted") == "true"
    assert not answer.closes
    await worker.exchanges[0].until_ended()
    await until(lambda: len(worker.requests) == 2)
    assert worker.requests[1].get("x-smg-priority") is None
    waits = await gw.client()
    await waits.send(post(BODY, SYSTEM, "X-SMG-Tenant-ID: low"))
    await until(lambda: scheduler.snapshot()["classes"]["bulk"]["waiting"] == 1)
    assert is_refused(await low.ask(post(BODY, BULK)), 429, "scheduler_queue_full", "2")
    assert is_refused(await waits.read(), 503, "scheduler_queue_timeout", "2")
    worker.go_on.release()
    worker.go_on.release()
    assert (await high.read()).status == 200
    await gw.settled()
    assert scheduler.in_flight == 0
    shown = gw.metrics
    for line in (
        'smg_scheduler_admit_total{class="bulk",outcome="preempted"} 1',
        'smg_scheduler_preemption_total{victim_class="bulk",by_class="system"} 1',
        'smg_scheduler_clamp_total{tenant="header:low",requested_class="system",effective_class="bulk"} 1',
        'smg_scheduler_queue_size_limit{class="bulk"} 1',
        "smg_scheduler_utilization 0",
    ):
        assert line in shown, line


async def test_no_one_gives_way_after_its_first_byte(gateway: Start, scheduler_file: str) -> None:
    async def play(connection: Connection, request: Request) -> None:
        await connection.send(SSE_HEAD + chunk(event("x")))
        await until(lambda: scheduler.snapshot()["waiting"])
        await connection.send(chunk(event("y")) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    worker = ScriptedWorker(play)
    options = {"priority_scheduler_config": scheduler_file, "priority_scheduler_default_max_class": "system"}
    gw = await gateway(worker, priority_scheduler_enabled=True, **options)
    scheduler: Any = gw.server.guards.permits
    scheduler.set_capacity(1)
    low, high = await gw.client(), await gw.client()
    await low.send(post(STREAM_BODY, BULK))
    await low.until_received(b"x")
    await high.send(post(STREAM_BODY, SYSTEM))
    assert (await low.read()).body.endswith(b"data: [DONE]\n\n")
    high.close()
    await gw.settled()


async def test_tenants_by_header_and_address(gateway: Start, tenants_file: str) -> None:
    worker = ScriptedWorker()
    gw = await gateway(
        worker,
        tenant_rate_limit_enabled=True,
        tenant_rate_limit_config=tenants_file,
        trust_tenant_header=True,
        tenant_header_name="X-Org",
    )
    for line in ("X-Org: red", "X-Other: x"):
        assert (await gw.ask(post(BODY, line))).status == 200
        denied = await gw.ask(post(STREAM_BODY, line))
        assert is_refused(denied, 429, "tenant_rate_limit_exceeded", "60")
        assert denied.get("content-type") == "application/json"
    for _ in range(2):
        assert (await gw.ask(post(BODY, "X-Org: other"))).status == 200
    assert is_refused(await gw.ask(post(BODY, "X-Org: other")), 429, "tenant_rate_limit_exceeded", "30")
    assert len(worker.requests) == 4
    long = await gw.ask(post(BODY, "X-Org: " + "q" * 201))
    assert (long.status, long.code) == (400, "invalid_tenant_header")
    content = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 400}]}).encode()
    assert is_refused(await gw.ask(post(content, "X-Org: new")), 429, "tenant_rate_limit_exceeded", None)
    shown: Any = gw.server.guards.snapshot()
    nearest = {one["tenant"] for one in shown["tenants"]["tenants"][:3]}
    assert nearest == {"ip:127.0.0.1", "header:red", "header:other"}


async def test_tenants_by_key(gateway: Start, tenants_file: str) -> None:
    worker = ScriptedWorker()
    gw = await gateway(
        worker,
        tenant_rate_limit_enabled=True,
        tenant_rate_limit_config=tenants_file,
        trust_tenant_header=True,
        tenant_api_key=(TenantKey.parse("blue:bk"), TenantKey.parse("green:gk")),
    )
    blue, green = "Authorization: Bearer bk", "Authorization: Bearer gk"
    assert (await gw.ask(post(BODY, blue, "X-SMG-Tenant-ID: a"))).status == 200
    assert (await gw.ask(post(BODY, blue, "X-SMG-Tenant-ID: b"))).status == 429
    assert [(await gw.ask(post(BODY, green))).status for _ in range(3)] == [200, 200, 429]
    assert (await gw.ask(post(BODY))).status == 401


async def test_a_realtime_request_needs_a_permit_too(gateway: Start) -> None:
    worker = Patient()
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=0)
    first = await gw.client()
    await first.send(post())
    await until(lambda: worker.requests)
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    refused = await gw.ask(get("/v1/realtime?model=m", *upgrade), "GET")
    assert is_refused(refused, 429, "admission_queue_full", "2")
    worker.go_on.release()
    await first.read()
    missing = await gw.ask(get("/v1/realtime?model=m", *upgrade), "GET")
    assert (missing.status, missing.code) == (404, "model_not_found")
    assert gw.server.guards.permits.in_flight == 0


async def test_a_permit_is_held_until_a_slow_client_has_its_answer(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        await connection.answer(b'"' + b"x" * (8 << 20) + b'"')

    worker = ScriptedWorker(play)
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=0)
    client = await gw.client()
    client.stop_reading()
    await client.send(post())
    await until(lambda: worker.requests and not gw.worker(worker).load)
    permits = gw.server.guards.permits
    assert permits.in_flight == 1
    assert is_refused(await gw.ask(post()), 429, "admission_queue_full", "2")
    client.read_on()
    assert (await client.read()).status == 200
    await until(lambda: permits.in_flight == 0)


async def one_at_work_and_one_in_line(
    gateway: Start, worker: Patient, request: bytes
) -> tuple[LiveGateway, RawClient, RawClient]:
    """The second has sent `request`."""
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=1)
    first, second = await gw.client(), await gw.client()
    await first.send(post())
    await until(lambda: worker.requests)
    await second.send(request)
    await until(lambda: gw.server.guards.permits.snapshot()["waiting"] == 1)
    return gw, first, second


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize(("how", "size"), [("close", 150_000), ("reset", 150_000), ("reset", 5_000_000)])
async def test_who_leaves_the_queue_with_a_body_nobody_has_read(
    gateway: Start, how: str, size: int, missing: int
) -> None:
    whole = post(BODY[:-1] + b" " * size + b"}")
    worker = Patient()
    gw, first, second = await one_at_work_and_one_in_line(gateway, worker, whole[: len(whole) - missing])
    permits = gw.server.guards.permits
    await until(lambda: gw.server.front.limits.look.armed == 1)
    getattr(second, how)()
    await until(lambda: permits.snapshot()["waiting"] == 0)
    worker.go_on.release()
    assert (await first.read()).status == 200
    await gw.settled()
    assert permits.in_flight == 0 and len(worker.requests) == 1


async def test_who_leaves_behind_more_than_the_buffers_hold_is_missed_in_its_turn(gateway: Start) -> None:
    worker = Patient()
    request = post(BODY[:-1] + b" " * 20_000_000 + b"}")[:-1]
    gw, first, second = await one_at_work_and_one_in_line(gateway, worker, request)
    permits = gw.server.guards.permits
    await until(lambda: gw.server.front.limits.look.armed == 1)
    second.close()
    worker.go_on.release()
    assert (await first.read()).status == 200
    await until(lambda: second.is_over)
    await gw.settled()
    assert (permits.in_flight, permits.snapshot()["waiting"], len(worker.requests)) == (0, 0, 1)


@pytest.mark.parametrize("size", [100_000, 200_000])
async def test_who_leaves_after_the_queue_is_seen_to_leave(gateway: Start, size: int) -> None:
    """Reading was paused while the request waited; it goes on when the body is taken, or the end of the
    client would be noticed with the end of the answer only."""
    worker = Patient()
    request = post(BODY[:-1] + b" " * size + b"}")
    gw, first, second = await one_at_work_and_one_in_line(gateway, worker, request)
    permits = gw.server.guards.permits
    worker.go_on.release()
    assert (await first.read()).status == 200
    await until(lambda: len(worker.requests) == 2)
    second.reset()
    await worker.exchanges[-1].until_ended()
    await gw.settled()
    assert permits.in_flight == 0


async def test_pipelined_requests_wait_for_each_other_without_a_queue(gateway: Start) -> None:
    worker = ScriptedWorker()
    gw = await gateway(worker, max_concurrent_requests=1, queue_size=0)
    client = await gw.client()
    bodies = [BODY, STREAM_BODY, b"{}", BODY, STREAM_BODY, STREAM_BODY]
    await client.send(b"".join(map(post, bodies)))
    assert [(await client.read()).status for _ in bodies] == [200, 200, 400, 200, 200, 200]
    await gw.settled()
    assert gw.server.guards.permits.in_flight == 0
