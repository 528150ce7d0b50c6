"""Filling empty caches: where every prompt has a worker that holds it, a new one would never get any."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from smg.policies.ask import Ask, Ticket
from smg.workers.warmup import BLOCK_BYTES, Warmup
from smg.workers.worker import Worker

_LOOK_S = 1.0
"""How often the workers are compared."""
_MOST_BYTES = 1 << 28
"""What was sent counts half when it has become so much: caches forget, too."""
_FORGET = 0.95
"""Weight that the mean depth of hits keeps at the next one."""


class _Diverted:
    """A diverted request in flight."""

    __slots__ = ("_below", "_busy", "_worker")

    def __init__(self, busy: set[Worker], worker: Worker, below: Ticket | None) -> None:
        self._busy, self._worker, self._below = busy, worker, below
        busy.add(worker)

    def first_event(self, now: float) -> None:
        if self._below is not None:
            self._below.first_event(now)

    def end(self, now: float) -> None:
        self._busy.discard(self._worker)
        if self._below is not None:
            self._below.end(now)


class Divert:
    """Gives one hit in `every` to a worker that is thin: cold, or sent less than `thin_ratio` of what the
    median worker was sent, until it has got `blocks` blocks. Shallow hits first, since less is lost by
    them, and one at a time. With `every` 0 nothing is diverted.
    """

    def __init__(
        self,
        warmup: Warmup,
        every: int,
        thin_ratio: float,
        blocks: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._warmup = warmup
        self._every = every
        self._thin_ratio = thin_ratio
        self._enough_bytes = blocks * BLOCK_BYTES
        self._clock = clock
        self._sent: dict[Worker, int] = {}
        self._total = 0
        self._thin: dict[Worker, int] = {}
        self._looked_at = 0.0
        self._busy: set[Worker] = set()
        self._hits = 0
        self._mean_depth = -1.0

    def admit(self, candidates: Sequence[Worker]) -> Sequence[Worker]:
        """Who may get a prompt that nobody holds."""
        return self._warmup.admit(candidates) if self._warmup.cold else candidates

    def instead(self, depth: int, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        """The thin worker that gets a hit of so many bytes; None: its holder."""
        mean = self._mean_depth
        self._mean_depth = mean * _FORGET + depth * (1 - _FORGET) if mean >= 0 else depth
        if not self._every or not (self._thin or self._warmup.cold):
            return None
        self._hits += 1
        if self._hits < self._every:
            return None
        if depth > self._mean_depth * 1.01 and self._hits < 2 * self._every:
            return None
        cold = self._warmup.cold
        for worker in candidates:
            if (worker in self._thin or worker in cold) and worker not in self._busy:
                self._hits = 0
                ask.ticket = _Diverted(self._busy, worker, ask.ticket)
                return worker
        return None

    def sent(self, worker: Worker, missing: int, candidates: Sequence[Worker]) -> None:
        """A prompt goes to the worker, which holds all but `missing` bytes of it."""
        self._sent[worker] = self._sent.get(worker, 0) + missing
        self._total += missing
        if worker in self._warmup.cold:
            self._warmup.sent(worker, missing)
        if self._total > _MOST_BYTES:
            self._sent = {one: size // 2 for one, size in self._sent.items()}
            self._total = sum(self._sent.values())
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._compare(candidates)

    def forget(self, worker: Worker) -> None:
        self._total -= self._sent.pop(worker, 0)
        self._thin.pop(worker, None)

    def _compare(self, candidates: Sequence[Worker]) -> None:
        self._warmup.expire()
        sent = {worker: self._sent.get(worker, 0) for worker in candidates}
        median = statistics.median(sent.values())
        # While nobody was sent much, being sent little means nothing.
        if median >= self._enough_bytes:
            for worker, size in sent.items():
                if size < median * self._thin_ratio:
                    self._thin.setdefault(worker, size)
        for worker, since in list(self._thin.items()):
            size = sent.get(worker, since)
            if size < since:
                self._thin[worker] = size  # what was sent was halved meanwhile
            elif size - since >= self._enough_bytes or size >= median:
                del self._thin[worker]
