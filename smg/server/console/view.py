"""What the console shows, as one JSON object: read from live objects when somebody looks, bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smg.gateway.record import CLIENT_CLOSED
from smg.server.console.samples import RATE_S, WINDOW_S, Counted, Sample, Samples, between, quantile, rates
from smg.telemetry.failures import Failure
from smg.telemetry.metrics import Metrics
from smg.workers.breaker import State
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker

MAX_WORKERS = 500
MAX_LABELS = 16
MAX_MODELS = 16
MAX_TENANTS = 50
MAX_FAILURES = 50
MAX_CHARACTERS = 200

Json = dict[str, Any]
_GOOD = (Status.READY, State.CLOSED)


class View:
    """`why_not_ready`: a reason while the gateway drains. `admission` tells of `permits` and `tenants`."""

    def __init__(
        self,
        registry: Registry,
        metrics: Metrics,
        version: str,
        why_not_ready: Callable[[], str | None],
        admission: Callable[[], Mapping[str, object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._version = version
        self._why_not_ready = why_not_ready
        self._snapshot = admission
        self._clock = clock
        self._begun = clock()
        self.samples = Samples(self._count, clock)

    def data(self) -> Json:
        """Everything that is shown."""
        now = Sample(self._clock(), self._count())
        calls, failures = rates(self.samples.since(RATE_S), now)
        workers = self._registry.all()
        return {
            "version": self._version,
            "policy": self._metrics.policy,
            "uptime_s": round(now.at - self._begun),
            "not_ready": self._why_not_ready(),
            "in_flight": sum(worker.load for worker in workers),
            "calls_per_s": calls,
            "failures_per_s": failures,
            "first_token": self._first_token(now),
            "history": [point._asdict() for point in self.samples.points()],
            **self._admission(),
            "workers": self._workers(workers, now),
            "workers_total": len(workers),
            "workers_ready": self._registry.ready_count,
            "failures": self._failures(),
        }

    def _count(self) -> Counted:
        calls = failures = 0
        firsts: list[float] = [0] * (len(self._metrics.bounds) + 1)
        workers: dict[str, tuple[int, int]] = {}
        for row in self._metrics.exchanges.rows.values():
            ended = sum(row.counts.values())
            failed = sum(count for outcome, count in row.counts.items() if is_failure(*outcome[:2]))
            calls += ended
            failures += failed
            if row.worker:
                before = workers.get(row.worker, (0, 0))
                workers[row.worker] = before[0] + ended, before[1] + failed
                for place, count in enumerate(row.firsts[: len(firsts)]):
                    firsts[place] += count
        return Counted(calls, failures, firsts, workers)

    def _admission(self) -> Json:
        """The lines of requests that wait, the whole one without a name and those of the classes, and the
        tenants nearest to their limits."""
        told: Any = self._snapshot()
        permits, tenants = told["permits"], told["tenants"]
        queues = [{"name": "", **permits}, *({"name": n, **q} for n, q in permits.get("classes", {}).items())]
        shown = ("name", "in_flight", "limit", "waiting", "queue_size")
        return {
            "queues": [{name: queue.get(name) for name in shown} for queue in queues],
            "tenants": None
            if tenants is None
            else {
                "denied": tenants["denied"],
                "nearest": [
                    {**one, "tenant": _cut(one["tenant"]), "rule": _cut(one["rule"] or "")}
                    for one in tenants["tenants"][:MAX_TENANTS]
                ],
            },
        }

    def _first_token(self, now: Sample) -> Json:
        """Times to the first token within the last minute."""
        counts = between(self.samples.since(WINDOW_S).counted.firsts, now.counted.firsts)
        bounds = self._metrics.bounds
        return {
            "count": int(sum(counts)),
            "p50_s": quantile(bounds, counts, 0.5),
            "p99_s": quantile(bounds, counts, 0.99),
        }

    def _workers(self, workers: Iterable[Worker], now: Sample) -> list[Json]:
        """Those in trouble first, else in an order that stays."""
        old = self.samples.since(WINDOW_S)
        sent, matched = (
            {labels[0]: value for labels, value in self._metrics.read(name)}
            for name in ("smg_worker_prompt_bytes_total", "smg_worker_matched_bytes_total")
        )
        ordered = sorted(workers, key=lambda w: ((w.status, w.breaker.state) == _GOOD, w.url))
        shown = []
        for worker in ordered[:MAX_WORKERS]:
            calls, failures = now.counted.workers.get(worker.url, (0, 0))
            before = old.counted.workers.get(worker.url, (0, 0))
            text = sent.get(worker.url)
            described = _describe(worker, self._clock())
            described["calls_last_minute"] = calls - before[0]
            described["failures_last_minute"] = failures - before[1]
            described["hit_share"] = matched.get(worker.url, 0) / text if text else None
            shown.append(described)
        return shown

    def _failures(self) -> Json:
        latest = self._metrics.failures.latest()
        causes: dict[tuple[int, str], list[Failure]] = {}
        for one in latest:
            causes.setdefault((one.status, one.code), []).append(one)
        grouped = sorted(causes.items(), key=lambda cause: -len(cause[1]))
        return {
            "total": self._metrics.failures.total,
            "causes": [
                {"status": status, "code": code, "count": len(found), "at": found[0].at}
                for (status, code), found in grouped[:MAX_FAILURES]
            ],
            "latest": [one._asdict() for one in latest[:MAX_FAILURES]],
        }


def is_failure(status: int, code: str) -> bool:
    """Is an outcome an error of the console's? 499 says that the client left, which is its own business; a
    stream that broke has a good status and a code."""
    return (status >= 400 or bool(code)) and status != CLIENT_CLOSED


def _describe(worker: Worker, now: float) -> Json:
    report = worker.report
    return {
        "url": _cut(worker.url),
        "status": worker.status.value,
        "breaker": worker.breaker.state.name.lower(),
        "kind": worker.worker_type,
        "runtime": worker.runtime,
        "models": [_cut(model) for model in worker.models[:MAX_MODELS]],
        "labels": {_cut(name): _cut(value) for name, value in list(worker.labels.items())[:MAX_LABELS]},
        "load": worker.load,
        "report": None
        if report is None
        else {
            "age_s": round(now - report.at, 1),
            "running": report.running_requests,
            "waiting": report.waiting_requests,
            "cache_usage": report.token_usage,
            "tokens_per_s": report.throughput,
        },
    }


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
