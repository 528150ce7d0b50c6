"""Workers that are out of touch, and workers that join a fleet at work, over the wire (FF-29)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import post
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker


@pytest.mark.parametrize("silent", [True, False])
async def test_a_worker_that_was_silent_fails_one_request_and_comes_back(
    gateway: Start, silent: bool
) -> None:
    dead, alive = ScriptedWorker(), ScriptedWorker()
    live = await gateway(dead, alive, load_monitor_interval=1000)
    worker, registry = live.worker(dead), live.server.registry
    port = dead.port
    await dead.stop()
    if silent:
        worker.heard_at -= 100
    for _ in range(6):
        answer = await live.ask(post())
        assert (answer.status, answer.get("x-smg-routed-worker-id")) == (200, alive.url)
    assert (worker.breaker.consecutive_failures == 1) is silent
    assert registry.unreachable == ({worker} if silent else set())
    dead.port = port
    await dead.start()
    await until(lambda: not registry.unreachable, "it is in touch again")
    routed = {(await live.ask(post())).get("x-smg-routed-worker-id") for _ in range(4)}
    assert routed == {dead.url, alive.url}


async def test_one_broken_connection_is_forgotten_at_the_first_probe(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        connection.reset()

    broken, alive = ScriptedWorker(play), ScriptedWorker()
    live = await gateway(broken, alive, load_monitor_interval=1000)
    worker = live.worker(broken)
    worker.heard_at -= 100
    silent_since = worker.heard_at
    for _ in range(2):  # one of them goes there first
        assert (await live.ask(post())).status == 200
    assert broken.requests
    await until(lambda: not live.server.registry.unreachable, "its probes are answered")
    assert worker.heard_at > silent_since


async def test_the_only_worker_is_tried_all_the_same(gateway: Start) -> None:
    dead = ScriptedWorker()
    live = await gateway(dead, load_monitor_interval=1000)
    live.worker(dead).heard_at -= 100
    await dead.stop()
    for _ in range(2):
        answer = await live.ask(post())
        assert (answer.status, answer.code) == (502, "call_upstream_connection_failed")


async def joined(live: LiveGateway, worker: ScriptedWorker) -> None:
    await worker.start()
    assert (await live.ask(post(json.dumps({"url": worker.url}).encode(), target="/workers"))).status == 202
    await until(lambda: worker.url in {w.url for w in live.server.registry.any_entry().ready}, "it is ready")


async def shares(live: LiveGateway, count: int) -> Counter[str | None]:
    client = await live.client()
    return Counter([(await client.ask(post())).get("x-smg-routed-worker-id") for _ in range(count)])


async def test_who_joins_a_fleet_at_work_begins_with_a_part(gateway: Start) -> None:
    old, young, late = ScriptedWorker(), ScriptedWorker(), ScriptedWorker()
    live = await gateway(old)
    warmup = live.server.router.warmup
    assert warmup is not None
    try:
        await joined(live, young)  # as old as the fleet
        assert await shares(live, 100) == {old.url: 50, young.url: 50}
        for worker in warmup._ready_since:
            warmup._ready_since[worker] -= 100
        await joined(live, late)
        assert set(warmup.cold) == {live.worker(late)}
        got = (await shares(live, 300))[late.url]
        assert 5 <= got <= 60  # an equal share is 100, a quarter of it 25
        warmup.cold[live.worker(late)] -= 100
        assert (await shares(live, 300))[late.url] == 100
    finally:
        await young.stop()
        await late.stop()


async def test_an_engine_that_hangs_is_left_out_until_it_goes_on(gateway: Start) -> None:
    go_on = asyncio.Event()

    async def play(connection: Connection, request: Request) -> None:
        await go_on.wait()
        await connection.answer()

    hung, alive = ScriptedWorker(play), ScriptedWorker()
    live = await gateway(hung, alive, worker_wedge_secs=1)
    waiting = [asyncio.create_task(live.ask(post())) for _ in range(8)]
    await until(lambda: live.worker(hung) in live.server.registry.stuck, "it is seen to hang")
    assert live.worker(hung).load == 4
    for _ in range(4):
        assert (await live.ask(post())).get("x-smg-routed-worker-id") == alive.url
    go_on.set()
    answers = await asyncio.gather(*waiting)
    assert {answer.status for answer in answers} == {200}
    await until(lambda: not live.server.registry.stuck, "it goes on")
    assert hung.url in {(await live.ask(post())).get("x-smg-routed-worker-id") for _ in range(2)}
