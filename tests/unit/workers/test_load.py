"""Load reports: real-looking and broken ones, and the rounds in which they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.specs import WorkerUrl
from smg.workers.breaker import Breaker
from smg.workers.engine import Answer, EngineClient, EngineError
from smg.workers.load import (
    LOADS,
    METRICS,
    OLD_LOAD,
    SKIPPED_ROUNDS,
    LoadMonitor,
    read_loads,
    read_metrics,
    read_old_load,
)
from smg.workers.registry import Registry
from smg.workers.worker import LoadReport, Status, Worker

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


def test_loads_of_one_rank() -> None:
    assert read_loads(loads(RANK), 5.0) == LoadReport(5.0, 3, 2, 900.0, 0.25, 1200.5)


def test_loads_of_ranks_are_added_up() -> None:
    other = RANK | {"token_usage": 0.75, "num_waiting_uncached_tokens": 100}
    assert read_loads(loads(RANK, other), 5.0) == LoadReport(5.0, 6, 4, 1000.0, 0.5, 2401.0)


def test_tokens_that_one_rank_does_not_tell_are_unknown() -> None:
    report = read_loads(loads(RANK, {"num_waiting_reqs": 1}), 5.0)
    assert report is not None
    assert report.waiting_tokens is None
    assert report.waiting_requests == 3


def test_old_load() -> None:
    body = b'[{"dp_rank":0,"num_reqs":5,"num_waiting_reqs":2,"num_tokens":100},{"num_reqs":1}]'
    assert read_old_load(body, 5.0) == LoadReport(5.0, 4, 2)
    assert read_old_load(b'[{"num_reqs":1,"num_waiting_reqs":2}]', 5.0) == LoadReport(5.0, 0, 2)


def test_metrics() -> None:
    assert read_metrics(VLLM, 5.0) == LoadReport(5.0, 3, 2, None, 0.5)


def test_metrics_of_two_engines() -> None:
    body = VLLM + VLLM.replace(b'"0"', b'"1"').replace(b"} 0.5", b"} 0.7")
    assert read_metrics(body, 5.0) == LoadReport(5.0, 6, 4, None, 0.6)


def test_metrics_with_time_stamps_and_without_labels() -> None:
    body = b'vllm:num_requests_running 3 1700000000000\nvllm:num_requests_waiting{a="b"} 2 1700000000000\n'
    assert read_metrics(body, 5.0) == LoadReport(5.0, 3, 2)


@pytest.mark.parametrize("value", [b"NaN", b"+Inf", b"-1", b"1e400", b"x", b"", b"1e99"])
def test_samples_that_are_no_count_are_ignored(value: bytes) -> None:
    line = b"vllm:num_requests_running " + value
    assert read_metrics(line, 5.0) is None
    assert read_metrics(line + b"\n" + VLLM, 5.0) == read_metrics(VLLM, 5.0)


@pytest.mark.parametrize(
    "value", ["1e400", "1" + "0" * 400, "-5", "true", '"3"', "null", "[1]", "{}", "1e99"]
)
def test_numbers_that_are_no_count_are_ignored(value: str) -> None:
    body = f'[{{"num_running_reqs":{value},"num_reqs":{value},"num_waiting_reqs":1}}]'
    for report in (
        read_loads(b'{"loads":' + body.encode() + b"}", 5.0),
        read_old_load(body.encode(), 5.0),
    ):
        assert report is None or (report.running_requests, report.waiting_requests) == (0, 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b'{"loads":[]}', b'{"loads":{}}', b'{"loads":[1]}', b"\xff", b"[" * 100_000],
)
@pytest.mark.parametrize("read", [read_loads, read_old_load, read_metrics])
def test_broken_bodies_are_no_report(read: Callable[..., LoadReport | None], body: bytes) -> None:
    assert read(body, 5.0) is None


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.floats() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
    | st.floats().map(lambda v: b'vllm:num_requests_running{a="b"} %r' % v)
)
def test_any_body_is_survived(body: bytes) -> None:
    for read in (read_loads, read_old_load, read_metrics):
        read(body, 5.0)


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
    """A monitor of one worker whose pauses end when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine, self.now = Engine(), 100.0
        self.worker = Worker(WorkerUrl.parse("http://127.0.0.1:1"), Breaker(10, 3, 60, 120, True))
        self.registry = Registry()
        self.registry.add(self.worker)
        self.registry.set_status(self.worker, Status.READY)
        client: EngineClient = self.engine  # type: ignore[assignment]
        self.monitor = LoadMonitor(self.registry, client, lambda w: "key", 10.0, lambda: self.now)
        monkeypatch.setattr("smg.workers.load.asyncio.sleep", self._stop)

    async def _stop(self, seconds: float) -> None:
        assert seconds == 10.0
        raise StopAsyncIteration

    async def round(self) -> list[str]:
        """The paths that were asked for."""
        with pytest.raises(StopAsyncIteration):
            await self.monitor.run()
        self.now += 10
        return self.engine.take_paths()


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(monkeypatch)


async def test_a_report_is_kept_and_what_was_sent_starts_anew(rounds: Rounds) -> None:
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    rounds.worker.sent_since_report = 7
    assert await rounds.round() == [LOADS]
    assert rounds.worker.report == read_loads(loads(RANK), 100.0)
    assert rounds.worker.sent_since_report == 0


async def test_the_key_is_shown(rounds: Rounds) -> None:
    rounds.engine.answers[LOADS] = (200, loads(RANK))
    with pytest.raises(StopAsyncIteration):
        await rounds.monitor.run()
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
