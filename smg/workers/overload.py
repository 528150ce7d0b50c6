"""Overload protection: workers whose reported queue or KV cache is past a threshold get no requests while
others are below theirs."""

from __future__ import annotations

from collections.abc import Sequence

from smg.telemetry import logs
from smg.workers.registry import Change, Registry
from smg.workers.worker import Status, Worker

log = logs.get(__name__)


def is_past(worker: Worker) -> bool:
    """Does the last report of a worker reach one of its thresholds?"""
    report, bounds = worker.report, worker.thresholds
    if report is None:
        return False
    if bounds.waiting_requests is not None and report.waiting_requests >= bounds.waiting_requests:
        return True
    return bounds.token_usage is not None and report.token_usage >= bounds.token_usage


def pressure(worker: Worker) -> float:
    """How far a worker is past its thresholds, requests sent since its report counted as waiting; 1: just
    reached."""
    report, bounds = worker.report, worker.thresholds
    if report is None:
        return 0.0
    waiting = usage = 0.0
    if bounds.waiting_requests is not None:
        waiting = (report.waiting_requests + worker.sent_since_report) / bounds.waiting_requests
    if bounds.token_usage is not None:
        usage = report.token_usage / bounds.token_usage
    return max(waiting, usage)


class Overload:
    """`workers` are those past a threshold, nearly always none. With `sheds` a request that could only go
    to such workers is refused."""

    def __init__(self, registry: Registry, sheds: bool, retry_after_s: int) -> None:
        self.workers: set[Worker] = set()
        self.sheds = sheds
        self.retry_after_s = retry_after_s
        self.shed = 0
        self.fallbacks = 0
        registry.on_change(self._on_change)

    def judge(self, worker: Worker) -> None:
        """A report of the worker came, or lapsed."""
        past = is_past(worker) and worker.status is Status.READY
        if past == (worker in self.workers):
            return
        if past:
            self.workers.add(worker)
        else:
            self.workers.discard(worker)
        report = worker.report
        log.warn(
            "worker overloaded" if past else "worker no longer overloaded",
            worker=worker.url,
            waiting=report.waiting_requests if report is not None else None,
            token_usage=report.token_usage if report is not None else None,
        )

    def spare(self, candidates: Sequence[Worker]) -> tuple[Worker, ...]:
        """The candidates that are not overloaded; if all are, nobody when requests are shed, else the one
        that is the least."""
        free = tuple(w for w in candidates if w not in self.workers)
        if free:
            return free
        if self.sheds:
            self.shed += 1
            return ()
        self.fallbacks += 1
        return (min(candidates, key=lambda w: (pressure(w), w.load)),)

    def _on_change(self, change: Change, worker: Worker) -> None:
        if worker.status is not Status.READY or change is Change.REMOVED:
            self.workers.discard(worker)
