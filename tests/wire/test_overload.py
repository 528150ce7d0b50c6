"""Workers that report an overload are spared, over the wire; and a storm of retries is cut short."""

from __future__ import annotations

import json
from typing import Any

from smg.gateway.retries import FREE_PER_S, MEMORY_S, SHARE
from smg.workers.load import LOADS
from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import get, post
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker, plain


class Reporting(ScriptedWorker):
    """Reports so many waiting requests."""

    def __init__(self, waiting: int) -> None:
        super().__init__()
        self.waiting = waiting

    def probe(self, path: str) -> bytes:
        if path != LOADS:
            return super().probe(path)
        row = {"dp_rank": 0, "num_running_reqs": 1, "num_waiting_reqs": self.waiting, "token_usage": 0.1}
        return plain(json.dumps({"loads": [row]}).encode())


async def reported(live: LiveGateway, *workers: ScriptedWorker) -> None:
    await until(lambda: all(live.worker(one).report for one in workers), "all have reported")


async def test_an_overloaded_worker_is_left_out(gateway: Start) -> None:
    busy, free = Reporting(8), Reporting(7)
    live = await gateway(busy, free)
    await reported(live, busy, free)
    for _ in range(4):
        assert (await live.ask(post())).get("x-smg-routed-worker-id") == free.url


async def test_all_overloaded_are_used_or_shed(gateway: Start) -> None:
    for shed in (False, True):
        more, less = Reporting(30), Reporting(9)
        live = await gateway(more, less, worker_overload_shed=shed, load_monitor_interval=7)
        await reported(live, more, less)
        answer = await live.ask(post())
        if not shed:
            assert (answer.status, answer.get("x-smg-routed-worker-id")) == (200, less.url)
            continue
        assert answer.status == 503
        assert answer.get("x-smg-error-code") == "worker_overload_protection_shed"
        assert answer.get("retry-after") == "7"
        assert (more.requests, less.requests) == ([], [])


async def test_a_worker_may_have_thresholds_of_its_own(gateway: Start) -> None:
    live = await gateway(wait=False, disable_worker_overload_protection=True, worker_overload_shed=True)
    strict, lax = await Reporting(3).start(), await Reporting(50).start()
    try:
        for one, spec in ((strict, {"overload": {"waiting_requests": 3}}), (lax, {})):
            body = json.dumps({"url": one.url, **spec}).encode()
            assert (await live.ask(post(body, target="/workers"))).status == 202
        await until(lambda: live.server.registry.ready_count == 2, "both are ready")
        await reported(live, strict, lax)
        for _ in range(3):
            assert (await live.ask(post())).get("x-smg-routed-worker-id") == lax.url
    finally:
        await strict.stop()
        await lax.stop()


async def test_loads_are_shown(gateway: Start) -> None:
    one, other = Reporting(2), Reporting(5)
    live = await gateway(one, other)
    await reported(live, one, other)
    answer = await live.ask(get("/get_loads"), "GET")
    shown: dict[str, Any] = json.loads(answer.body)
    assert [(row["worker"], row["num_waiting_reqs"]) for row in shown["loads"]] == [
        (one.url, 2),
        (other.url, 5),
    ]
    assert shown["aggregate"]["total_waiting_reqs"] == 7
    assert shown["aggregate"]["total_reqs"] == 9


async def test_a_storm_of_retries_is_cut_short(gateway: Start) -> None:
    """The whole fleet answers 503: clients get that answer, workers little more than their requests."""

    async def play(connection: Connection, request: Request) -> None:
        await connection.answer(b'{"busy":true}', "503 Service Unavailable")

    workers = [ScriptedWorker(play) for _ in range(2)]
    live = await gateway(*workers, disable_circuit_breaker=True)
    client, count = await live.client(), 300
    for _ in range(count):
        answer = await client.ask(post())
        assert (answer.status, answer.body) == (503, b'{"busy":true}')
    tried = sum(len(one.requests) for one in workers)
    budget = live.server.router.budget
    assert tried == count + budget.spent
    assert budget.denied > 0
    # What is free comes by the clock, so that there may be some more of it than at the start.
    assert SHARE * count + FREE_PER_S * MEMORY_S * 0.5 <= budget.spent < 4 * count
