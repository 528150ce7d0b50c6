"""The worker from which the first token is expected soonest: its queue's prefill, and what it misses of
this prompt, at the speed it was seen to have. See docs/least-ttft.md."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence

from smg.policies.ask import Ask
from smg.policies.prefill import Prefill
from smg.policies.prefix_index import PrefixIndex, prompt_of
from smg.workers.worker import Worker

_SAME = 0.01
"""Expected times that differ by less than this share count as equal: chance decides then."""


class _Sent:
    """A prompt on its way to a worker."""

    __slots__ = ("_number", "_prefill", "_waiting")

    def __init__(self, prefill: Prefill, number: int) -> None:
        self._prefill = prefill
        self._number = number
        self._waiting = True

    def first_event(self, now: float) -> None:
        if self._waiting:
            self._waiting = False
            self._prefill.first_event(self._number, now)

    def end(self, now: float) -> None:
        if self._waiting:
            self._waiting = False
            self._prefill.drop(self._number)


class LeastTtft:
    """Has no settings: what it needs to know it learns from the answers' first events."""

    reads_body = True

    def __init__(
        self, index: PrefixIndex, rng: random.Random, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.index = index
        self._random = rng
        self._clock = clock
        self._prefills: dict[Worker, Prefill] = {}
        self._numbers = itertools.count()

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        now = self._clock()
        prompt = prompt_of(ask)
        size = prompt.size if prompt is not None else 0
        held = self.index.held(prompt, candidates) if prompt is not None else [0] * len(candidates)
        best, best_s, equals = 0, 0.0, 0
        for i, worker in enumerate(candidates):
            prefill = self._prefill(worker)
            expected = prefill.wait_s(now) + prefill.cost_s(max(size - held[i], 0))
            if not equals or expected < best_s * (1 - _SAME):
                best, best_s, equals = i, expected, 1
            elif expected <= best_s * (1 + _SAME):
                equals += 1
                if self._random.random() * equals < 1:
                    best = i
        worker = candidates[best]
        prefill = self._prefill(worker)
        number = next(self._numbers)
        ask.why = (
            f"wait={prefill.wait_s(now):.4f}s missing={max(size - held[best], 0)}/{size} "
            f"expected={best_s:.4f}s of {len(candidates)}"
        )
        prefill.send(number, max(size - held[best], 0), now)
        ask.ticket = _Sent(prefill, number)
        if prompt is not None:
            self.index.insert(prompt, worker)
        return worker

    def forget(self, worker: Worker) -> None:
        self._prefills.pop(worker, None)
        self.index.forget(worker)

    def _prefill(self, worker: Worker) -> Prefill:
        prefill = self._prefills.get(worker)
        if prefill is None:
            prefill = self._prefills[worker] = self._newcomer()
        return prefill

    def _newcomer(self) -> Prefill:
        """A worker nobody has seen answer is taken for an average one."""
        fresh = Prefill()
        known = [p for p in self._prefills.values() if p.seen]
        if known:
            fresh.fixed_s = sum(p.fixed_s for p in known) / len(known)
            fresh.per_byte_s = sum(p.per_byte_s for p in known) / len(known)
        return fresh
