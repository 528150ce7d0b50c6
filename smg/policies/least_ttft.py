"""The worker from which the first token is expected soonest: its queue's prefill, and what it misses of
this prompt, at the speed it was seen to have. See docs/least-ttft.md."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence

from smg.policies.ask import Ask
from smg.policies.prefill import Prefill
from smg.policies.prefix_index import PrefixIndex, Prompt, prompt_of
from smg.workers.worker import Worker

_SAME = 0.01
"""Expected times that differ by less than this share count as equal: chance decides then."""
_OPTIMISM = 0.3
"""Share of the average costs that a worker nobody knows is given: it is tried early, not when all others are
crowded, or a fleet that starts would herd at the first worker that answered."""


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
        prefills = self._prefills_of(candidates, now)
        best, best_s, equals = 0, 0.0, 0
        for i, prefill in enumerate(prefills):
            expected = prefill.wait_s(now) + prefill.cost_s(max(size - held[i], 0))
            if not equals or expected < best_s * (1 - _SAME):
                best, best_s, equals = i, expected, 1
            elif expected <= best_s * (1 + _SAME):
                equals += 1
                if self._random.random() * equals < 1:
                    best = i
        self._send(candidates[best], ask, prompt, max(size - held[best], 0), now)
        return candidates[best]

    def placed(self, worker: Worker, ask: Ask) -> None:
        """Somebody else has chosen the worker."""
        prompt = prompt_of(ask)
        missing = prompt.size - self.index.held(prompt, (worker,))[0] if prompt is not None else 0
        self._send(worker, ask, prompt, max(missing, 0), self._clock())

    def forget(self, worker: Worker) -> None:
        self._prefills.pop(worker, None)
        self.index.forget(worker)

    def _send(self, worker: Worker, ask: Ask, prompt: Prompt | None, missing: int, now: float) -> None:
        prefill = self._prefill(worker)
        number = next(self._numbers)
        prefill.send(number, missing, now)
        ask.ticket = _Sent(prefill, number)
        if prompt is not None:
            self.index.insert(prompt, worker)

    def _prefills_of(self, candidates: Sequence[Worker], now: float) -> list[Prefill]:
        """Theirs; a worker nobody has seen answer of late is taken for a better one."""
        prefills = [self._prefill(worker) for worker in candidates]
        unknown = [p for p in prefills if not p.is_known(now)]
        if unknown and len(unknown) < len(prefills):
            known = [p for p in prefills if p.is_known(now)]
            fixed_s = sum(p.fixed_s for p in known) / len(known)
            per_byte_s = sum(p.per_byte_s for p in known) / len(known)
            for prefill in unknown:
                prefill.assume(fixed_s * _OPTIMISM, per_byte_s * _OPTIMISM)
        return prefills

    def _prefill(self, worker: Worker) -> Prefill:
        prefill = self._prefills.get(worker)
        if prefill is None:
            prefill = self._prefills[worker] = Prefill()
        return prefill
