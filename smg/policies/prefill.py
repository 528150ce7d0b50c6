"""What a worker's prefill costs, learnt from its answers: a fixed time and a time per missing byte."""

from __future__ import annotations

from array import array
from collections import OrderedDict

from smg._fast.costs import Costs

_FORGET = 0.98
"""Weight that an observation keeps at the next one: about the last fifty count."""
_FIRST_GUESS_S = 1e-4
"""Seconds a byte before anything was seen; only ratios between workers count then."""
_STALE_S = 120.0
"""What was learnt so long ago, by a worker that has nothing to do, is doubted: others may be preferred to it
for one slow answer, and it would never get the chance to show that it was the only one."""
_MAX_TICKETS = 65536


class Prefill:
    """One worker's queue of prompts that were sent and have not answered, and its learnt costs.

    How much of a prompt was missing is known as far as it is known what the worker's cache still held, so it
    comes as an array: the missing bytes by each of `candidates` assumptions. `believed` is the one in use.

    An engine prefills about in the order of arrival. So a prompt's own time is that from its sending, or
    from the answer before it, whichever is later, to its first event.
    """

    __slots__ = (
        "_freed_at",
        "_learnt_at",
        "_missing",
        "_queue",
        "believed",
        "costs",
        "fixed_s",
        "per_byte_s",
    )

    def __init__(self, candidates: int = 1, believed: int = 0) -> None:
        self._queue: OrderedDict[int, tuple[int, float, array[int]]] = OrderedDict()
        self._missing = 0
        self._freed_at = self._learnt_at = 0.0
        self.costs = Costs(candidates, _FORGET)
        self.believed = believed
        self.fixed_s = 0.0
        self.per_byte_s = _FIRST_GUESS_S

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def seen(self) -> int:
        """Answers that taught something."""
        return self.costs.seen

    def is_known(self, now: float) -> bool:
        return self.seen > 0 and (len(self._queue) > 0 or now - self._learnt_at <= _STALE_S)

    def assume(self, fixed_s: float, per_byte_s: float) -> None:
        """Take over others' costs, until an answer tells the own ones."""
        self.costs = Costs(self.costs.candidates, _FORGET)
        self.fixed_s, self.per_byte_s = fixed_s, per_byte_s

    def believe(self, candidate: int) -> None:
        """From now on that assumption counts."""
        self.believed = candidate
        if self.seen:
            self.fixed_s, per_byte_s = self.costs.fit(candidate)
            self.per_byte_s = per_byte_s or self.per_byte_s

    def cost_s(self, missing: int) -> float:
        return self.fixed_s + self.per_byte_s * missing

    def wait_s(self, now: float) -> float:
        """Expected seconds until the prompts that are already there are done."""
        if not self._queue:
            return 0.0
        work = self.fixed_s * len(self._queue) + self.per_byte_s * self._missing
        missing, sent, _ = next(iter(self._queue.values()))
        first = self.cost_s(missing)
        done = min(max(now - max(sent, self._freed_at), 0.0), first)
        return work - done

    def send(self, number: int, missing: array[int], now: float) -> None:
        if len(self._queue) < _MAX_TICKETS:
            believed = missing[self.believed]
            self._queue[number] = (believed, now, missing)
            self._missing += believed

    def first_event(self, number: int, now: float) -> None:
        """The prompt's prefill is over: learn from it."""
        ticket = self._queue.pop(number, None)
        if ticket is None:
            return
        believed, sent, missing = ticket
        self._missing -= believed
        self.costs.learn(missing, max(now - max(sent, self._freed_at), 0.0))
        self.believe(self.believed)
        self._freed_at = max(self._freed_at, now)
        self._learnt_at = now

    def drop(self, number: int) -> None:
        """It ended without an answer: nothing to learn."""
        ticket = self._queue.pop(number, None)
        if ticket is not None:
            self._missing -= ticket[0]
