"""The worker from which the first token is expected soonest: its queue's prefill, and what it misses of
this prompt, at the speed it was seen to have. See docs/least-ttft.md."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence

from smg._fast.recency import Path
from smg.policies.ask import Ask
from smg.policies.caches import Caches
from smg.policies.prefill import Prefill
from smg.policies.prefix_index import prompt_of
from smg.workers.worker import Worker

_SAME = 0.01
"""Expected times that differ by less than this share count as equal: chance decides then."""
_OPTIMISM = 0.3
"""Share of the average costs that a worker nobody knows is given: it is tried early, not when all others are
crowded, or a fleet that starts would herd at the first worker that answered."""
_FORGET = 0.98


class _Sent:
    """A prompt on its way to a worker."""

    __slots__ = ("_number", "_policy", "_prefill", "_waiting")

    def __init__(self, policy: LeastTtft, prefill: Prefill, number: int) -> None:
        self._policy = policy
        self._prefill = prefill
        self._number = number
        self._waiting = True

    def first_event(self, now: float) -> None:
        if self._waiting:
            self._waiting = False
            self._prefill.first_event(self._number, now)
            self._policy.learn()

    def end(self, now: float) -> None:
        if self._waiting:
            self._waiting = False
            self._prefill.drop(self._number)


class LeastTtft:
    """Has no settings: what it needs to know it learns from the answers' first events."""

    reads_body = True

    def __init__(
        self, caches: Caches, rng: random.Random, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._caches = caches
        self._random = rng
        self._clock = clock
        self._prefills: dict[Worker, Prefill] = {}
        self._numbers = itertools.count()
        # What the prompts of late had to wait and cost where they were sent, seconds, faded.
        self._wait_s = self._cost_s = 0.0

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        now = self._clock()
        path = self._path(ask)
        prefills = self._prefills_of(candidates, now)
        later_s = self._later_s(prefills)
        best, best_s, equals, waits = 0, 0.0, 0, []
        for i, prefill in enumerate(prefills):
            missing = path.size - self._caches.held(path, candidates[i]) if path is not None else 0
            wait_s = prefill.wait_s(now)
            cost_s = prefill.cost_s(missing)
            expected = wait_s + cost_s + later_s * missing
            if ask.why is not None:
                waits.append((candidates[i].url, missing, wait_s, cost_s, later_s * missing))
            if not equals or expected < best_s * (1 - _SAME):
                best, best_s, equals = i, expected, 1
            elif expected <= best_s * (1 + _SAME):
                equals += 1
                if self._random.random() * equals < 1:
                    best = i
        if ask.why is not None:
            ask.why.terms = _explained(waits, path.size if path is not None else 0)
        self._send(candidates[best], ask, path, now)
        return candidates[best]

    def placed(self, worker: Worker, ask: Ask) -> None:
        """Somebody else has chosen the worker."""
        self._send(worker, ask, self._path(ask), self._clock())

    def forget(self, worker: Worker) -> None:
        self._prefills.pop(worker, None)
        self._caches.forget(worker)

    def learn(self) -> None:
        """A prompt was answered."""
        self._caches.learn(self._prefills.values())

    def _path(self, ask: Ask) -> Path | None:
        prompt = prompt_of(ask)
        return self._caches.path(prompt) if prompt is not None else None

    def _send(self, worker: Worker, ask: Ask, path: Path | None, now: float) -> None:
        prefill = self._prefill(worker)
        missing = self._caches.missing(path, worker)
        believed = missing[prefill.believed]
        self._wait_s += (1 - _FORGET) * (prefill.wait_s(now) - self._wait_s)
        self._cost_s += (1 - _FORGET) * (prefill.cost_s(believed) - self._cost_s)
        number = next(self._numbers)
        prefill.send(number, missing, now)
        size = path.size if path is not None else 0
        ask.prompt_bytes, ask.matched_bytes, ask.held_bytes = size, size - believed, size - believed
        ask.ticket = _Sent(self, prefill, number)
        if path is not None:
            self._caches.use(path, worker, believed)

    def _later_s(self, prefills: Sequence[Prefill]) -> float:
        """What a byte that is prefilled anew costs those who come after: where prompts wait as long as they
        take themselves, the same again."""
        known = [prefill.per_byte_s for prefill in prefills if prefill.seen]
        if not known or self._cost_s <= 0:
            return 0.0
        return min(self._wait_s / self._cost_s, 1.0) * sum(known) / len(known)

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
            prefill = self._prefills[worker] = Prefill(self._caches.candidates, self._caches.believed)
        return prefill


def _explained(terms: Sequence[tuple[str, int, float, float, float]], size: int) -> str:
    """What was compared, the most promising first: seconds, and missing bytes of the prompt's `size`."""
    ordered = sorted(terms, key=lambda term: term[2] + term[3] + term[4])
    return "; ".join(
        f"{url} expected={wait + cost + later:.4g}s wait={wait:.4g}s prefill={cost:.4g}s later={later:.4g}s "
        f"missing={missing}/{size}"
        for url, missing, wait, cost, later in ordered
    )
