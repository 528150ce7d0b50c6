"""A worker joins a fleet at work: with warm-up it takes its part sooner, and nobody waits longer for it."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from smg.policies.cache_aware import CacheAware, Spill
from smg.policies.divert import Divert
from smg.policies.prefix_index import PrefixIndex
from smg.workers.registry import Registry
from smg.workers.warmup import Warmup
from smg.workers.worker import Status, Worker
from tests.unit.policies.simulation import Request, Simulation, conversations

JOINS_AFTER_S = 200.0


class Outcome(NamedTuple):
    """The newcomer's share of the requests in its first minute, and the mean time to first token in all."""

    share: float
    mean_s: float
    hits: float


class Joining(Simulation):
    """The last of the workers is there only after a while."""

    def __init__(
        self, warms_up: bool, requests: Sequence[Request], speeds: Sequence[float], room: int
    ) -> None:
        self._registry = Registry()
        self._chosen: list[Worker] = []

        def make(rng: random.Random, clock: Callable[[], float]) -> CacheAware:
            warmup = Warmup(self._registry, 60, 0.25, 1024, rng, clock)
            policy = CacheAware(PrefixIndex(1 << 20), 0.3, Spill(64, 1.5), rng)
            if warms_up:
                policy.divert = Divert(warmup, 8, 0.5, 1024, clock)
            return policy

        super().__init__(make, requests, speeds, room)
        self._everybody = self._workers
        self._workers = self._everybody[:-1]
        for worker in self._workers:
            self._add(worker)
        self._joins_at = requests[0].at + JOINS_AFTER_S

    def _add(self, worker: Worker) -> None:
        self._registry.add(worker)
        self._registry.set_status(worker, Status.READY)

    def _arrive(self, number: int, place: int) -> None:
        now = self._requests[number].at
        if now >= self._joins_at and self._workers is not self._everybody:
            self._workers = self._everybody
            self._add(self._everybody[-1])
        loads = [worker.load for worker in self._everybody]
        super()._arrive(number, place)
        if self._joins_at <= now < self._joins_at + 60:
            worker, _ = next(
                (w, load) for w, load in zip(self._everybody, loads, strict=True) if w.load > load
            )
            self._chosen.append(worker)

    def outcome(self) -> Outcome:
        result = self.run()
        share = self._chosen.count(self._everybody[-1]) / len(self._chosen)
        return Outcome(share, result.mean_s, result.hits)


@functools.cache
def outcome(warms_up: bool) -> Outcome:
    requests = conversations(seed=3, count=750, rate=1.5, turns=6, system_prompts=8)
    return Joining(warms_up, requests, speeds=[8000.0] * 4, room=4000).outcome()


def test_the_newcomer_is_not_starved() -> None:
    assert outcome(True).share > outcome(False).share
    assert 0.1 <= outcome(True).share <= 0.25


def test_nobody_waits_for_it() -> None:
    assert outcome(True).mean_s <= 1.05 * outcome(False).mean_s
    assert outcome(True).hits >= outcome(False).hits - 0.01
