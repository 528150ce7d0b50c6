"""What a worker has of its own: timeouts, idle connections, the statuses that are tried again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from smg.backends.http import HttpBackend
from smg.config.specs import PrefillUrl, WorkerUrl
from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import BODY, STREAM_BODY, head, post
from tests.wire.scripted_worker import SSE_HEAD, Connection, Request, ScriptedWorker, chunk, event

# A timeout that is not the worker's own is never reached.
LONG = {"upstream_pool_idle_timeout_secs": 3600, "request_timeout_secs": 3600, "retry_initial_backoff_ms": 1}
WAYS = pytest.mark.parametrize("way", ["POST", "PUT"])


async def stays_silent(connection: Connection, request: Request) -> None:
    await connection.until_ended()


def says(*statuses: int) -> Any:
    """One after the other, the last one from then on."""
    left = list(statuses)

    async def play(connection: Connection, request: Request) -> None:
        status = left.pop(0) if len(left) > 1 else left[0]
        await connection.answer(b'{"ok":true}', f"{status} X")

    return play


async def put(gw: LiveGateway, worker: ScriptedWorker, **members: Any) -> None:
    spec = json.dumps({"url": worker.url, **members}).encode()
    target = f"/workers/{gw.worker(worker).id}"
    lines = ("Content-Type: application/json", f"Content-Length: {len(spec)}")
    assert (await gw.ask(head("PUT", target, *lines) + spec)).status == 202


async def having(gateway: Start, way: str, worker: ScriptedWorker, **members: Any) -> LiveGateway:
    """A gateway with a worker that was added, or replaced, with members of its own."""
    if way == "PUT":
        gw = await gateway(worker, **LONG)
        if worker.play is not stays_silent:
            assert (await gw.ask(post())).status == 200
        await put(gw, worker, **members)
        return gw
    await worker.start()
    gw = await gateway(**LONG)
    spec = json.dumps({"url": worker.url, **members}).encode()
    assert (await gw.ask(post(spec, target="/workers"))).status == 202
    await until(lambda: gw.server.registry.ready_count == 1, "the worker is ready")
    return gw


@WAYS
async def test_a_request_timeout(gateway: Start, way: str) -> None:
    worker = ScriptedWorker(stays_silent)
    own = {"http_pool": {"timeout_secs": 0.05}, "resilience": {"max_retries": 2}}
    gw = await having(gateway, way, worker, **own)
    try:
        response = await gw.ask(post())
        assert (response.status, response.code) == (504, "call_upstream_timeout")
        assert b"within 0.05 seconds" in response.body
        assert len(worker.requests) == 2
        await gw.settled()
    finally:
        await worker.stop()


async def test_a_request_timeout_ends_a_stream(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        await connection.send(SSE_HEAD + chunk(event("x")))
        await connection.until_ended()

    other, worker = ScriptedWorker(model="other"), ScriptedWorker(play)
    gw = await gateway(other, worker, **LONG)
    await put(gw, worker, http_pool={"timeout_secs": 0.05})
    body = (await gw.ask(post(STREAM_BODY))).body
    assert body.startswith(event("x")) and b"took too long" in body
    assert gw.server.limits.request.armed == 0


async def test_a_request_timeout_of_a_body_that_is_passed_on(gateway: Start) -> None:
    worker = ScriptedWorker(stays_silent, plays_at_head=True)
    gw = await gateway(worker, **LONG, max_buffered_request_bytes=10)
    await put(gw, worker, http_pool={"timeout_secs": 0.05})
    client = await gw.client()
    await client.send(post(BODY)[:-5])
    response = await client.read()
    assert (response.status, response.code) == (408, "request_body_timeout")
    assert b"after 0.05 seconds" in response.body


@WAYS
async def test_no_connection_is_kept(gateway: Start, way: str) -> None:
    worker = ScriptedWorker()
    gw = await having(gateway, way, worker, http_pool={"pool_max_idle_per_host": 0})
    try:
        for _ in range(3):
            assert (await gw.ask(post())).status == 200
        for one in worker.exchanges:
            await one.until_ended()
        assert {one.exchanges for one in worker.exchanges} == {1}
        await until(lambda: gw.counts.upstreams == 0, "all connections are closed")
    finally:
        await worker.stop()


@WAYS
async def test_connections_are_kept_for_a_time(gateway: Start, way: str) -> None:
    worker = ScriptedWorker()
    gw = await having(gateway, way, worker, http_pool={"pool_idle_timeout_secs": 0.05})
    try:
        assert (await gw.ask(post())).status == 200
        await worker.exchanges[-1].until_ended()
        await until(lambda: gw.counts.upstreams == 0, "the connection is closed")
    finally:
        await worker.stop()


async def test_a_put_that_says_nothing_of_connections_takes_away_what_was_said(gateway: Start) -> None:
    worker = ScriptedWorker()
    gw = await gateway(worker, **LONG)
    await put(gw, worker, http_pool={"pool_max_idle_per_host": 0})
    assert (await gw.ask(post())).status == 200
    await put(gw, worker)
    for _ in range(2):
        assert (await gw.ask(post())).status == 200
    assert [one.exchanges for one in worker.exchanges] == [1, 2]


async def test_a_connect_timeout(gateway: Start) -> None:
    """A name server that does not answer is a part of connecting."""
    asked = 0

    async def resolve(host: str, port: int) -> Sequence[str]:
        nonlocal asked
        asked += 1
        return await asyncio.get_running_loop().create_future()

    worker = ScriptedWorker(name="localhost")
    gw = await gateway(worker, **LONG)
    await put(gw, worker, http_pool={"connect_timeout_secs": 0.05}, resilience={"disable_retry": True})
    backend = gw.worker(worker).backend
    assert isinstance(backend, HttpBackend)
    backend.dialer.resolve = resolve
    response = await gw.ask(post())
    assert (response.status, response.code, asked) == (502, "call_upstream_connection_failed", 1)


@WAYS
@pytest.mark.parametrize(
    ("codes", "statuses", "expected"),
    [
        ([418], (418, 200), 200),
        ([418], (418, 418, 503), 503),
        ([], (503, 200), 503),
        ([503], (503, 503, 200), 200),
        ([500], (500, 200), 500),
    ],
    ids=["more", "others no more", "none", "a usual one", "on another worker only"],
)
async def test_statuses_that_are_tried_again(
    gateway: Start, way: str, codes: list[int], statuses: tuple[int, ...], expected: int
) -> None:
    worker = ScriptedWorker(says(*(() if way == "POST" else (200,)), *statuses))
    gw = await having(gateway, way, worker, resilience={"retryable_status_codes": codes})
    try:
        assert (await gw.ask(post())).status == expected
        played = len(worker.requests) - (way == "PUT")
        assert played == statuses.index(expected) + 1
    finally:
        await worker.stop()


async def test_retries_that_end_in_vain_are_counted_by_the_workers_own_list(gateway: Start) -> None:
    worker = ScriptedWorker(says(418))
    gw = await gateway(worker, **LONG, retry_max_retries=2)
    await put(gw, worker, resilience={"retryable_status_codes": [418]})
    assert (await gw.ask(post())).status == 418
    await gw.settled()
    labels = '{worker_type="regular",endpoint="chat"}'
    assert f"smg_worker_retries_exhausted_total{labels} 1" in gw.metrics


@pytest.mark.parametrize("half", ["prefill", "decode"])
async def test_both_halves_of_a_pair(gateway: Start, half: str) -> None:
    """Each leg has what its own worker has."""
    prefill, decode = await ScriptedWorker().start(), await ScriptedWorker().start()
    own = prefill if half == "prefill" else decode
    try:
        gw = await gateway(
            wait=False,
            pd_disaggregation=True,
            prefill=(PrefillUrl(WorkerUrl.parse(prefill.url), 9001),),
            decode=(WorkerUrl.parse(decode.url),),
            **LONG,
        )
        await until(lambda: gw.server.registry.can_serve, "both halves are ready")
        members = {"worker_type": half, "bootstrap_port": 9001, "http_pool": {"timeout_secs": 0.05}}
        await put(gw, own, **members, resilience={"retryable_status_codes": [418]})
        own.play = says(418, 200)
        assert (await gw.ask(post())).status == 200
        own.play = says(503)
        assert (await gw.ask(post())).code == f"{half}_unavailable"
        own.play = stays_silent
        before = len(own.requests)
        response = await gw.ask(post())
        assert (response.status, response.code) == (504, "call_upstream_timeout")
        assert b"within 0.05 seconds" in response.body and len(own.requests) > before
    finally:
        for worker in (prefill, decode):
            await worker.stop()


async def test_what_is_out_of_range_is_refused(gateway: Start) -> None:
    worker = ScriptedWorker()
    gw = await gateway(worker, **LONG)
    for members in (
        {"http_pool": {"timeout_secs": 0}},
        {"http_pool": {"connect_timeout_secs": -1}},
        {"http_pool": {"pool_idle_timeout_secs": 0}},
        {"http_pool": {"pool_max_idle_per_host": -1}},
        {"http_pool": {"pool_max_idle_per_host": 1.5}},
        {"resilience": {"retryable_status_codes": [200]}},
        {"resilience": {"retryable_status_codes": [600]}},
    ):
        spec = json.dumps({"url": "http://127.0.0.1:9", **members}).encode()
        response = await gw.ask(post(spec, target="/workers"))
        assert response.status == 400 and json.loads(response.body)["code"] == "BAD_REQUEST"
