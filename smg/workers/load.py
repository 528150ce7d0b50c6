"""What engines report of their load, asked for at an interval: queues, KV cache, throughput."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from smg.telemetry import logs
from smg.workers.engine import EngineClient, EngineError
from smg.workers.registry import Registry
from smg.workers.worker import LoadReport, Status, Worker

log = logs.get("load")

PARALLEL = 64
TIMEOUT_S = 5.0
# A route that is not there is asked for again only after so many rounds: engines are upgraded in place.
SKIPPED_ROUNDS = 30

LOADS = "/v1/loads?include=core,disagg,queues,memory"
OLD_LOAD = "/get_load"
METRICS = "/metrics"
_MOST = 1e15


class LoadMonitor:
    """`key_of` gives the key a worker is asked with. `interval_s` between two rounds."""

    def __init__(
        self,
        registry: Registry,
        client: EngineClient,
        key_of: Callable[[Worker], str | None],
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._client = client
        self._key_of = key_of
        self._interval_s = interval_s
        self._clock = clock
        self._skip: dict[tuple[str, str], int] = {}
        self._slots = asyncio.Semaphore(PARALLEL)

    async def run(self) -> None:
        """Ask every worker in every round, until cancelled."""
        while True:
            workers = [w for w in self._registry.all() if w.status is Status.READY and not w.is_external]
            known = {w.id for w in workers}
            self._skip = {place: n - 1 for place, n in self._skip.items() if n > 1 and place[0] in known}
            await asyncio.gather(*(self._poll(worker) for worker in workers))
            await asyncio.sleep(self._interval_s)

    async def _poll(self, worker: Worker) -> None:
        async with self._slots:
            for path, read in ((LOADS, read_loads), (OLD_LOAD, read_old_load), (METRICS, read_metrics)):
                try:
                    body = await self._ask(worker, path)
                except EngineError:
                    break  # it would keep the round waiting on every path
                report = read(body, self._clock()) if body is not None else None
                if report is not None:
                    worker.reported(report)
                    return
        # A report that is no longer renewed says nothing about now.
        if worker.report is not None and self._clock() - worker.report.at > 3 * self._interval_s:
            worker.reported(None)

    async def _ask(self, worker: Worker, path: str) -> bytes | None:
        place = (worker.id, path)
        if place in self._skip:
            return None
        answer = await self._client.get(worker.url + path, self._key_of(worker), TIMEOUT_S)
        if answer.status in (404, 405, 501):
            self._skip[place] = SKIPPED_ROUNDS
        return answer.body if answer.is_ok else None


def _number(value: Any) -> float | None:
    """What it counts, None when it is no number that something could be counted by."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _MOST else None


def _sample(line: str, name: str) -> float | None:
    """The value of a Prometheus sample `name{labels} value [timestamp]`."""
    value, *_ = line[len(name) :].rpartition("}")[2].split() or ["-"]
    try:
        return _number(float(value))
    except ValueError:
        return None


def _entries(body: bytes, member: str | None) -> list[dict[str, Any]]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    if member is not None:
        value = value.get(member) if isinstance(value, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def read_loads(body: bytes, now: float) -> LoadReport | None:
    """SGLang's `/v1/loads`: one entry a data-parallel rank, added up here."""
    entries = _entries(body, "loads")
    if not entries:
        return None

    def total(name: str) -> float:
        return sum(_number(one.get(name)) or 0.0 for one in entries)

    uncached = [_number(one.get("num_waiting_uncached_tokens")) for one in entries]
    usage = [_number(one.get("token_usage")) or 0.0 for one in entries]
    return LoadReport(
        at=now,
        running_requests=int(total("num_running_reqs")),
        waiting_requests=int(total("num_waiting_reqs")),
        waiting_tokens=None if None in uncached else sum(n for n in uncached if n is not None),
        token_usage=sum(usage) / len(usage),
        throughput=total("gen_throughput"),
    )


def read_old_load(body: bytes, now: float) -> LoadReport | None:
    """SGLang's older `/get_load`."""
    entries = _entries(body, None)
    if not entries:
        return None
    waiting = sum(_number(one.get("num_waiting_reqs")) or 0.0 for one in entries)
    total = sum(_number(one.get("num_reqs")) or 0.0 for one in entries)
    return LoadReport(at=now, running_requests=int(max(total - waiting, 0)), waiting_requests=int(waiting))


def read_metrics(body: bytes, now: float) -> LoadReport | None:
    """vLLM's Prometheus text; several engines in one server are added up, of their caches the mean counts."""
    names: dict[str, list[float]] = {
        "vllm:num_requests_running": [],
        "vllm:num_requests_waiting": [],
        "vllm:kv_cache_usage_perc": [],
    }
    for line in body.decode("utf-8", "replace").splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        value = _sample(line, name) if name in names else None
        if value is not None:
            names[name].append(value)
    running, waiting, usage = names.values()
    if not (running or waiting or usage):
        return None
    return LoadReport(
        at=now,
        running_requests=int(sum(running)),
        waiting_requests=int(sum(waiting)),
        token_usage=min(sum(usage) / len(usage), 1.0) if usage else 0.0,
    )
