"""The rounds in which engines are asked for their load."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from smg.config.specs import WorkerUrl
from smg.workers.breaker import Breaker
from smg.workers.engine import Answer, EngineClient, EngineError
from smg.workers.load import LOADS, METRICS, OLD_LOAD, SKIPPED_ROUNDS, LoadMonitor
from smg.workers.registry import Registry
from smg.workers.reports import report_of, rows_of_loads
from smg.workers.worker import LoadReport, Rank, Status, Worker
from tests.waiting import until

RANK = {
    "dp_rank": 0,
    "num_running_reqs": 3,
    "num_waiting_reqs": 2,
    "num_waiting_uncached_tokens": 900,
    "token_usage": 0.25,
    "gen_throughput": 1200.5,
    "cache_hit_rate": 0.5,
    "queues": {"waiting": 2},
}
SGLANG = {"timestamp": "2026-01-01T00:00:00", "version": "0.5", "dp_rank_count": 1, "loads": [RANK]}
VLLM = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {strange} name"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_total{engine="0"} 77.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
"""


def loads(*ranks: dict[str, Any]) -> bytes:
    return json.dumps(SGLANG | {"loads": ranks}).encode()


def read_loads(body: bytes, now: float) -> LoadReport | None:
    return report_of(rows_of_loads(body), now)


class Engine:
    """Stands for the client: answers by path, and says when a round is over."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes] | None] = {}
        self.asked: list[tuple[str, str | None]] = []

    async def get(self, url: str, key: str | None, timeout_s: float) -> Answer:
        path = url.removeprefix("http://127.0.0.1:1")
        self.asked.append((path, key))
        answer = self.answers.get(path, (404, b""))
        if answer is None:
            raise EngineError("no connection")
        return Answer(answer[0], "application/json", answer[1])

    def take_paths(self) -> list[str]:
        paths, self.asked = [path for path, _ in self.asked], []
        return paths


class Rounds:
    """A monitor of one worker whose rounds are asked for by the test."""

    def __init__(self) -> None:
        self.engine, self.now = Engine(), 100.0
        self.worker = make_worker()
        self.registry = Registry()
        self.judged: list[Worker] = []
        self.add(self.worker)
        client: EngineClient = self.engine  # type: ignore[assignment]
        self.monitor = LoadMonitor(
            self.registry, client, lambda w: "key", 10.0, lambda: self.now, self.judged.append
        )

    def add(self, worker: Worker) -> None:
        self.registry.add(worker)
        self.registry.set_status(worker, Status.READY)

    async def round(self) -> list[str]:
        """The paths that were asked for."""
        assert await self.monitor.round() == 10.0
        self.now += 10
        return self.engine.take_paths()


def make_worker(rank: Rank | None = None) -> Worker:
    worker = Worker(WorkerUrl.parse("http://127.0.0.1:1"), Breaker(10, 3, 60, 120, True))
    if rank is not None:
        Registry().call_rank(worker, rank)
    return worker


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


async def test_a_report_is_kept_and_what_was_sent_starts_anew(rounds: Rounds) -> None:
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    rounds.worker.sent_since_report = 7
    assert await rounds.round() == [LOADS]
    assert rounds.worker.report == read_loads(loads(RANK), 100.0)
    assert rounds.worker.sent_since_report == 0


async def test_the_key_is_shown(rounds: Rounds) -> None:
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    await rounds.monitor.round()
    assert rounds.engine.asked == [(LOADS, "key")]


async def test_what_is_not_there_is_asked_for_again_only_later(rounds: Rounds) -> None:
    rounds.engine.answers[METRICS] = (200, VLLM)
    assert await rounds.round() == [LOADS, OLD_LOAD, METRICS]
    asked = [await rounds.round() for _ in range(SKIPPED_ROUNDS)]
    assert asked[:-1] == [[METRICS]] * (SKIPPED_ROUNDS - 1)
    assert asked[-1] == [LOADS, OLD_LOAD, METRICS]


async def test_a_failure_is_no_absence_and_ends_the_round(rounds: Rounds) -> None:
    rounds.engine.answers = {LOADS: None, OLD_LOAD: (200, b"[]"), METRICS: (200, VLLM)}
    assert await rounds.round() == [LOADS]
    rounds.engine.answers[LOADS] = (503, b"")
    assert await rounds.round() == [LOADS, OLD_LOAD, METRICS]
    assert await rounds.round() == [LOADS, OLD_LOAD, METRICS]


async def test_a_report_that_is_not_renewed_is_dropped(rounds: Rounds) -> None:
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    await rounds.round()
    rounds.engine.answers[LOADS] = None
    for _ in range(3):
        await rounds.round()
        assert rounds.worker.report is not None
    rounds.worker.sent_since_report = 7
    await rounds.round()
    assert rounds.worker.report is None
    assert rounds.worker.sent_since_report == 0


@pytest.mark.parametrize("status", [Status.NOT_READY, Status.FAILED, Status.DRAINING])
async def test_only_ready_workers_are_asked(rounds: Rounds, status: Status) -> None:
    rounds.registry.set_status(rounds.worker, status)
    assert await rounds.round() == []


async def test_ranks_of_one_address_are_asked_once_and_told_apart(rounds: Rounds) -> None:
    rounds.registry.remove(rounds.worker)
    ranks = [make_worker(Rank(number, 3)) for number in range(3)]
    for one in ranks:
        rounds.add(one)
    rows = [RANK | {"num_waiting_reqs": 5, "dp_rank": 1}, RANK]
    rounds.engine.answers[LOADS] = (200, loads(*rows))
    assert await rounds.round() == [LOADS]
    reports = [one.report for one in ranks]
    assert [report and report.waiting_requests for report in reports] == [2, 5, None]
    assert [len(one.load_rows) for one in ranks] == [1, 1, 0]
    assert rounds.judged == ranks[:2]


async def test_a_worker_may_have_an_interval_of_its_own(rounds: Rounds) -> None:
    rounds.worker.load_interval_s = 3
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    assert await rounds.monitor.round() == 3
    rounds.now += 2
    assert await rounds.monitor.round() == 1
    assert rounds.engine.take_paths() == [LOADS]


async def test_a_new_worker_is_asked_at_once(rounds: Rounds) -> None:
    """The pause of the others goes on for them, but does not keep it waiting."""
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    running = asyncio.create_task(rounds.monitor.run())
    await until(lambda: rounds.worker.report is not None)
    other = Worker(WorkerUrl.parse("http://127.0.0.1:11"), Breaker(10, 3, 60, 120, True))
    rounds.engine.answers["1" + LOADS] = (200, loads(RANK))
    rounds.add(other)
    await until(lambda: other.report is not None)
    running.cancel()
    assert rounds.engine.take_paths() == [LOADS, "1" + LOADS]
