"""Engines that hang: they take requests, answer their probes, and nothing more comes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from smg.telemetry import logs
from smg.workers.registry import Registry
from smg.workers.worker import REGULAR, Status, Worker

log = logs.get(__name__)

LOOK_S = 0.5
MOST_S = 120.0
"""The longest silence that an engine is granted."""
_PILE = 4
_PATIENCE = 2.0
"""A silence that ended by itself is granted so many times over the next time: an engine may be slow."""
_FADE = 0.99
"""What is left of it at the next look at an engine that goes on."""


class _Seen:
    """One worker with requests: since when nothing has come of them, and what was there then."""

    __slots__ = ("load", "longest_s", "since", "waiting")

    def __init__(self) -> None:
        self.since = 0.0
        self.load = 0
        self.waiting = 0
        self.longest_s = 0.0

    def note(self, since: float, load: int, waiting: int) -> None:
        self.since, self.load, self.waiting = since, load, waiting


class WedgeWatch:
    """Keeps the registry's `stuck` up to date. A worker is stuck when no byte and no answer has come from it
    for `silent_s` although it has requests, and these are four or have become more, or its queue has."""

    def __init__(
        self, registry: Registry, silent_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._silent_s = silent_s
        self._clock = clock
        self._seen: dict[Worker, _Seen] = {}

    async def run(self) -> None:
        """Look at all workers, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        now = self._clock()
        workers = [w for w in self._registry.all() if w.status is Status.READY and _can_be_judged(w)]
        self._seen = {w: self._seen.get(w) or _Seen() for w in workers}
        stuck = {w for w, seen in self._seen.items() if self._is_stuck(w, seen, now)}
        for worker in stuck ^ self._registry.stuck:
            tell = log.warn if worker in stuck else log.info
            tell("worker stuck" if worker in stuck else "worker goes on", worker=worker.url, load=worker.load)
        self._registry.stuck.intersection_update(stuck)
        self._registry.stuck.update(stuck)

    def _is_stuck(self, worker: Worker, seen: _Seen, now: float) -> bool:
        if worker.load == 0:
            seen.load = 0
            return False
        waiting = worker.report.waiting_requests if worker.report is not None else 0
        progress = max(worker.done_at, getattr(worker.backend, "heard_at", 0.0))
        if seen.load == 0:
            seen.note(now, worker.load, waiting)
        elif progress > seen.since:
            seen.longest_s = max(progress - seen.since, seen.longest_s * _FADE)
            seen.note(progress, worker.load, waiting)
        if worker.load <= seen.load and waiting <= seen.waiting and worker.load < _PILE:
            return False
        return now - seen.since >= min(max(self._silent_s, _PATIENCE * seen.longest_s), MOST_S)


def _can_be_judged(worker: Worker) -> bool:
    # The halves of pairs answer for each other.
    return worker.worker_type == REGULAR and not worker.is_external and worker.backend is not None
