"""Prefill/decode pairs over real sockets: what both get, who is let go of when, and loads back at zero."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from smg.config.specs import PrefillUrl, WorkerUrl
from tests.waiting import happened, turns, until
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import BODY, STREAM_BODY, get, post
from tests.wire.scripted_worker import SSE_HEAD, Connection, Request, ScriptedWorker, chunk, event, plain

StartPair = Callable[..., Awaitable[LiveGateway]]
LARGE = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * (3 << 20) + b'"}]}'


def says(status: str, body: bytes = b"{}") -> Any:
    async def play(connection: Connection, request: Request) -> None:
        await connection.send(plain(body, status))

    return play


async def stays_silent(connection: Connection, request: Request) -> None:
    await connection.until_ended()


@pytest.fixture
async def pair(gateway: Callable[..., Awaitable[LiveGateway]]) -> AsyncIterator[StartPair]:
    """`await pair(prefill, decode, option=value)` gives a gateway whose two halves are ready."""
    started: list[ScriptedWorker] = []

    async def start(prefill: ScriptedWorker, decode: ScriptedWorker, **options: Any) -> LiveGateway:
        for worker in (prefill, decode):
            started.append(await worker.start())
        live = await gateway(
            wait=False,
            pd_disaggregation=True,
            prefill=(PrefillUrl(WorkerUrl.parse(prefill.url), 9001),),
            decode=(WorkerUrl.parse(decode.url),),
            **options,
        )
        await until(lambda: live.server.registry.can_serve, "both halves are ready")
        return live

    yield start
    for worker in started:
        await worker.stop()


async def test_a_plain_answer(pair: StartPair) -> None:
    prefill, decode = ScriptedWorker(), ScriptedWorker(says("200 OK", b'{"from":"decode"}'))
    gw = await pair(prefill, decode)
    response = await gw.ask(post(BODY, "X-SMG-Routing-Tokens: 1,2", "X-Request-ID: r1"))
    assert (response.status, response.body) == (200, b'{"from":"decode"}')
    assert response.get("x-smg-routed-worker-id") == decode.url
    [one], [other] = prefill.requests, decode.requests
    assert one.body == other.body and one.body.startswith(BODY[:-1])
    assert json.loads(one.body)["bootstrap_port"] == 9001
    assert one.get("x-request-id") == "r1" and one.get("x-smg-routing-tokens") is None
    await gw.settled()
    assert f'smg_pd_prefill_requests_total{{worker="{prefill.url}",model="m"}} 1' in gw.metrics


async def test_a_stream_is_passed_on_as_it_comes(pair: StartPair) -> None:
    read = asyncio.Event()

    async def streams(connection: Connection, request: Request) -> None:
        await connection.send(SSE_HEAD, chunk(event("first")))
        await happened(read)
        await connection.send(chunk(event("second")) + b"0\r\n\r\n")

    gw = await pair(ScriptedWorker(), ScriptedWorker(streams))
    client = await gw.client()
    await client.send(post(STREAM_BODY))
    await client.until_received(event("first"))
    read.set()
    response = await client.read()
    assert response.body == event("first") + event("second")
    await gw.settled()


async def test_large_bodies(pair: StartPair) -> None:
    prefill, decode = ScriptedWorker(), ScriptedWorker()
    gw = await pair(prefill, decode)
    assert (await gw.ask(post(LARGE))).status == 200
    assert prefill.requests[0].body == decode.requests[0].body
    assert prefill.requests[0].body.startswith(LARGE[:-1])
    await gw.settled()


@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
@pytest.mark.parametrize("silent", [0, 1])
async def test_a_client_that_leaves_frees_both(pair: StartPair, body: bytes, silent: int) -> None:
    workers = [ScriptedWorker(), ScriptedWorker()]
    workers[silent].play = stays_silent
    gw = await pair(*workers)
    client = await gw.client()
    await client.send(post(body))
    await until(lambda: all(worker.requests for worker in workers))
    client.reset()
    await gw.settled()
    await workers[silent].exchanges[0].until_ended()


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_half_that_refuses_frees_the_other(pair: StartPair, failing: int) -> None:
    workers = [ScriptedWorker(stays_silent), ScriptedWorker(stays_silent)]
    workers[failing].play = says("400 Bad Request", b'{"e":1}')
    gw = await pair(*workers)
    response = await gw.ask(post())
    assert (response.status, response.code) == (400, ["prefill", "decode"][failing] + "_bad_request")
    await workers[1 - failing].exchanges[0].until_ended()
    await gw.settled()


async def test_halves_are_listed(pair: StartPair) -> None:
    gw = await pair(ScriptedWorker(), ScriptedWorker())
    listed = (await gw.ask(get("/workers"), "GET")).json()
    assert listed["stats"] == {"prefill_count": 1, "decode_count": 1, "regular_count": 0}
    halves = {one["worker_type"]: one for one in listed["workers"]}
    assert halves["prefill"]["bootstrap_port"] == 9001 and "bootstrap_port" not in halves["decode"]
    assert {one["pd_pairing"] for one in halves.values()} == {"sglang/?/?"}


async def test_half_a_pair_is_not_ready(pair: StartPair) -> None:
    gw = await pair(ScriptedWorker(), ScriptedWorker())
    [decode] = [worker for worker in gw.server.registry.all() if worker.worker_type == "decode"]
    response = await gw.ask(
        b"DELETE /workers/%b HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n" % decode.id.encode()
    )
    assert response.status == 202
    assert (await gw.ask(get("/readiness"), "GET")).status == 503
    assert (await gw.ask(post())).code == "no_available_workers"


async def test_choices_are_counted_for_each_half(pair: StartPair) -> None:
    gw = await pair(ScriptedWorker(), ScriptedWorker(), prefill_policy="random", decode_policy="passthrough")
    for _ in range(2):
        assert (await gw.ask(post(BODY))).status == 200
    await gw.settled()
    for half, policy in (("prefill", "random"), ("decode", "passthrough")):
        labels = f'worker_type="{half}",connection_mode="http",model="m",policy="{policy}"'
        assert f"smg_worker_selection_total{{{labels}}} 2" in gw.metrics
        assert f'smg_worker_health_checks_total{{worker_type="{half}",result="success"}} 1' in gw.metrics


async def test_pairs_have_no_realtime_calls(pair: StartPair) -> None:
    """Whatever the offer is like."""
    gw = await pair(ScriptedWorker(), ScriptedWorker())
    for target in ("/v1/realtime/calls", "/v1/realtime/calls?model=m", "/v1/realtime/calls?model=x"):
        answer = await gw.ask(post(b"", target=target))
        assert (answer.status, answer.body) == (501, b"Realtime not implemented")


async def test_many_at_once_leave_nothing(pair: StartPair) -> None:
    """Some are answered, some refused by either half, some leave: every load is zero afterwards."""
    turn = iter(range(10_000))

    async def moody(connection: Connection, request: Request) -> None:
        number = next(turn) % 7
        if number == 0:
            connection.close()
        elif number == 1:
            await connection.send(plain(b"{}", "503 Service Unavailable"))
        elif b'"stream":true' in request.body:
            await connection.stream(*[event("x")] * 5)
        else:
            await connection.answer()

    limits = {"prefill_max_inflight_requests_per_worker": 4, "prefill_queue_size": 100}
    gw = await pair(ScriptedWorker(moody), ScriptedWorker(moody), disable_circuit_breaker=True, **limits)

    async def one(number: int) -> None:
        client = await gw.client()
        await client.send(post(STREAM_BODY if number % 2 else BODY))
        if number % 5 == 0:
            await turns()
            client.reset()
        else:
            assert (await client.read()).status in (200, 429, 502, 503)
            client.close()

    await asyncio.gather(*(one(number) for number in range(60)))
    await gw.settled()
