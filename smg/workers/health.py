"""The probe loop of one registered worker: ready ↔ not ready by thresholds, failed in the end.

A worker that is not ready is asked more often, so that an engine that came back is used again soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from smg.telemetry import logs
from smg.workers.probe import Prober
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker

log = logs.get(__name__)

_PHASES = 1 << 16


class Health:
    """`revive` is awaited before a worker becomes ready again and says whether it may: the engine that
    came back may be another one. `remove_failed` ends the loop when a worker fails for good.
    """

    def __init__(
        self,
        registry: Registry,
        prober: Prober,
        revive: Callable[[Worker], Awaitable[bool]],
        remove_failed: bool,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._prober = prober
        self._revive = revive
        self._remove_failed = remove_failed
        self._clock = clock
        self.checks: dict[tuple[str, str], int] = {}
        """Checks by the worker's type and their outcome."""

    async def watch(self, worker: Worker) -> None:
        """Probe a worker for as long as it is registered; returns when it should be removed."""
        round_ = _Round(self._clock())
        # Workers that registered together are spread over the interval.
        await asyncio.sleep(worker.health.interval_s * (int(worker.id[:4], 16) + 1) / _PHASES)
        while True:
            if worker.health.disabled:
                self._trust(worker)
            else:
                healthy = await self._prober.is_healthy(worker)
                round_.note(healthy)
                self.count(worker, healthy)
                if healthy:
                    worker.heard_at = self._clock()
                    worker.breaker.on_reachable()
                await self._judge(worker, round_)
                if worker.status is Status.FAILED and self._remove_failed:
                    return
                if worker.status is Status.DRAINING:
                    return
            await asyncio.sleep(_pause(worker, round_))

    def count(self, worker: Worker, healthy: bool) -> None:
        outcome = (worker.worker_type, "success" if healthy else "failure")
        self.checks[outcome] = self.checks.get(outcome, 0) + 1

    async def _judge(self, worker: Worker, round_: _Round) -> None:
        options = worker.health
        if worker.status is Status.READY:
            if round_.failures >= options.failure_threshold:
                round_.down_since = self._clock()
                self._move(worker, Status.NOT_READY)
        elif round_.successes >= options.success_threshold:
            if await self._revive(worker):
                # It came back: what it failed before says nothing about now.
                worker.breaker.reset()
                self._move(worker, Status.READY)
        elif worker.status is Status.NOT_READY and round_.failures:
            down_s = self._clock() - round_.down_since
            if down_s >= options.failure_threshold * options.interval_s:
                self._move(worker, Status.FAILED)

    def _trust(self, worker: Worker) -> None:
        """Checks were turned off while the worker was failing."""
        if worker.status in (Status.NOT_READY, Status.FAILED):
            self._move(worker, Status.READY)

    def _move(self, worker: Worker, status: Status) -> None:
        tell = log.info if status is Status.READY else log.warn
        tell("worker status changed", worker=worker.url, status=status.value)
        self._registry.set_status(worker, status)


class _Round:
    """Probes in a row that ended alike."""

    __slots__ = ("down_since", "failures", "successes")

    def __init__(self, now: float) -> None:
        self.successes = 0
        self.failures = 0
        self.down_since = now

    def note(self, ok: bool) -> None:
        self.successes = self.successes + 1 if ok else 0
        self.failures = 0 if ok else self.failures + 1


def _pause(worker: Worker, round_: _Round) -> float:
    interval_s = worker.health.interval_s
    if worker.status is Status.READY or worker.health.disabled:
        return interval_s
    if round_.successes:
        return min(interval_s / 4, 1.0)
    return min(interval_s / 2, 5.0)
