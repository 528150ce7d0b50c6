"""What a worker's prefill costs, learnt from its answers: a fixed time and a time per byte of text."""

from __future__ import annotations

from collections import OrderedDict

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

    An engine prefills about in the order of arrival. So a prompt's own time is that from its sending, or
    from the answer before it, whichever is later, to its first event; a straight line through (missing
    bytes, time), by least squares with fading weights, gives the fixed and the per-byte cost.
    """

    __slots__ = (
        "_freed_at",
        "_learnt_at",
        "_missing",
        "_n",
        "_queue",
        "_x",
        "_xx",
        "_xy",
        "_y",
        "fixed_s",
        "per_byte_s",
        "seen",
    )

    def __init__(self) -> None:
        self._queue: OrderedDict[int, tuple[int, float]] = OrderedDict()
        self._missing = 0
        self._freed_at = self._learnt_at = 0.0
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        self.fixed_s = 0.0
        self.per_byte_s = _FIRST_GUESS_S
        self.seen = 0

    def __len__(self) -> int:
        return len(self._queue)

    def is_known(self, now: float) -> bool:
        return self.seen > 0 and (len(self._queue) > 0 or now - self._learnt_at <= _STALE_S)

    def assume(self, fixed_s: float, per_byte_s: float) -> None:
        """Take over others' costs, until an answer tells the own ones."""
        self._n = self._x = self._y = self._xx = self._xy = 0.0
        self.fixed_s, self.per_byte_s, self.seen = fixed_s, per_byte_s, 0

    def cost_s(self, missing: int) -> float:
        return self.fixed_s + self.per_byte_s * missing

    def wait_s(self, now: float) -> float:
        """Expected seconds until the prompts that are already there are done."""
        if not self._queue:
            return 0.0
        work = self.fixed_s * len(self._queue) + self.per_byte_s * self._missing
        missing, sent = next(iter(self._queue.values()))
        first = self.cost_s(missing)
        done = min(max(now - max(sent, self._freed_at), 0.0), first)
        return work - done

    def send(self, number: int, missing: int, now: float) -> None:
        if len(self._queue) < _MAX_TICKETS:
            self._queue[number] = (missing, now)
            self._missing += missing

    def first_event(self, number: int, now: float) -> None:
        """The prompt's prefill is over: learn from it."""
        ticket = self._queue.pop(number, None)
        if ticket is None:
            return
        missing, sent = ticket
        self._missing -= missing
        self._learn(missing, max(now - max(sent, self._freed_at), 0.0))
        self._freed_at = max(self._freed_at, now)
        self._learnt_at = now

    def drop(self, number: int) -> None:
        """It ended without an answer: nothing to learn."""
        ticket = self._queue.pop(number, None)
        if ticket is not None:
            self._missing -= ticket[0]

    def _learn(self, missing: int, seconds: float) -> None:
        self.seen += 1
        self._n = self._n * _FORGET + 1
        self._x = self._x * _FORGET + missing
        self._y = self._y * _FORGET + seconds
        self._xx = self._xx * _FORGET + missing * missing
        self._xy = self._xy * _FORGET + missing * seconds
        mean_x, mean_y = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - mean_x * mean_x
        slope = (
            (self._xy / self._n - mean_x * mean_y) / spread if spread > 1e-9 * (1 + mean_x * mean_x) else 0.0
        )
        if slope <= 0 or mean_y - slope * mean_x < 0:
            # All of one length, or noise: through the origin.
            slope = self._xy / self._xx if self._xx > 0 else 0.0
        if slope > 0:
            self.per_byte_s = slope
        self.fixed_s = max(mean_y - self.per_byte_s * mean_x, 0.0)
