"""Slow start: a worker that joins a fleet which has been at work for a while is cold, and gets its share of
the requests little by little, so that it is neither flooded while its caches are empty nor left idle."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from smg.telemetry import logs
from smg.workers.registry import Change, Registry
from smg.workers.worker import Status, Worker

log = logs.get(__name__)

BLOCK_BYTES = 64
"""A block of a prompt: 16 tokens of four bytes."""


class Warmup:
    """`cold` are the workers on their way, nearly always none. A worker is cold from the moment it becomes
    ready while another one of its models has been so for `seconds`; workers that start together are not.
    It is warm after `seconds`, or when it was sent `blocks` blocks of prompts.
    """

    def __init__(
        self,
        registry: Registry,
        seconds: float,
        share: float,
        blocks: int,
        rng: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cold: dict[Worker, float] = {}
        self._seconds = seconds
        self._share = share
        self._enough_bytes = blocks * BLOCK_BYTES
        self._random = rng
        self._clock = clock
        self._ready_since: dict[Worker, float] = {}
        self._sent_bytes: dict[Worker, int] = {}
        if seconds > 0:
            registry.on_change(self._on_change)

    def admit(self, candidates: Sequence[Worker]) -> Sequence[Worker]:
        """The candidates without the cold ones that have had their share."""
        if not self.cold:
            return candidates
        now = self._clock()
        warm = [w for w in candidates if self.progress(w, now) >= 1]
        if not warm or len(warm) == len(candidates):
            return candidates
        mean = sum(w.load for w in warm) / len(warm)
        return [w for w in candidates if self._may_have(w, mean, now)]

    def progress(self, worker: Worker, now: float) -> float:
        """The part of an equal share that a worker may have, 1 when it is warm."""
        since = self.cold.get(worker)
        if since is None:
            return 1.0
        done = (now - since) / self._seconds
        if done >= 1:
            self._warm(worker)
            return 1.0
        return self._share + (1 - self._share) * max(done, 0.0)

    def expire(self) -> None:
        """Find those that are warm by now."""
        if self.cold:
            now = self._clock()
            for worker in list(self.cold):
                self.progress(worker, now)

    def sent(self, worker: Worker, size: int) -> None:
        """A prompt went to a cold worker, of which it held all but `size` bytes."""
        total = self._sent_bytes[worker] = self._sent_bytes.get(worker, 0) + size
        if total >= self._enough_bytes:
            self._warm(worker)

    def _may_have(self, worker: Worker, mean_load: float, now: float) -> bool:
        part = self.progress(worker, now)
        # By turns for policies that look at no load, by load for those that would all run to the idle one.
        return part >= 1 or (worker.load < 1 + part * mean_load and self._random.random() < part)

    def _on_change(self, change: Change, worker: Worker) -> None:
        if change is Change.REMOVED or worker.status is not Status.READY:
            self._ready_since.pop(worker, None)
            self._forget(worker)
        elif worker not in self._ready_since and not worker.is_external:
            now = self._ready_since[worker] = self._clock()
            if any(self._is_old(other, worker, now) for other in self._ready_since):
                self.cold[worker] = now
                log.info("worker warming up", worker=worker.url, seconds=self._seconds)

    def _is_old(self, other: Worker, than: Worker, now: float) -> bool:
        old = now - self._ready_since[other] >= self._seconds and other.worker_type == than.worker_type
        return old and not set(other.models).isdisjoint(than.models)

    def _warm(self, worker: Worker) -> None:
        self._forget(worker)
        log.info("worker warm", worker=worker.url)

    def _forget(self, worker: Worker) -> None:
        self.cold.pop(worker, None)
        self._sent_bytes.pop(worker, None)
