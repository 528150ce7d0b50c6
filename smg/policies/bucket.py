"""Prefill workers by the length of the prompt: each has a range of lengths, and the ranges are moved so that
each worker gets as much text."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence

from smg.policies.ask import Ask
from smg.policies.load import in_flight
from smg.policies.prefix_index import prompt_of
from smg.workers.worker import Worker

FIRST_END = 4096
"""Where the last range begins to be open, before anything was seen; lengths in bytes of text."""
MAX_SEEN = 16_384


class Bucket:
    """`adjust_s`: time between two adjustments. Ranges yield to load when the busiest worker has more
    requests in flight than the idlest one by both thresholds."""

    reads_body = True

    def __init__(
        self, adjust_s: float, balance_abs: float, balance_rel: float, clock: Callable[[], float]
    ) -> None:
        self._adjust_s = adjust_s
        self._abs = balance_abs
        self._rel = balance_rel
        self._clock = clock
        self._due = clock() + adjust_s
        self._seen: deque[int] = deque(maxlen=MAX_SEEN)
        self._shares: list[int] = []
        self._bounds: dict[int, list[int]] = {}

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        prompt = prompt_of(ask)
        length = prompt.size if prompt is not None else 0
        self._adjust()
        self._seen.append(length)
        loads = [worker.load for worker in candidates]
        if max(loads) - min(loads) > self._abs and max(loads) > min(loads) * self._rel:
            return min(candidates, key=in_flight)
        # A worker that left or came moves the others' ranges, whatever order they are given in.
        ordered = sorted(candidates, key=lambda worker: worker.url)
        return ordered[bisect_right(self.bounds(len(ordered)), length)]

    def bounds(self, count: int) -> list[int]:
        """The lengths at which the ranges of all but the first of `count` workers begin, ascending."""
        known = self._bounds.get(count)
        if known is None:
            if len(self._bounds) > 64:
                self._bounds.clear()
            known = self._bounds[count] = _cut(self._shares, count)
        return known

    def _adjust(self) -> None:
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._adjust_s
        if self._seen:
            self._shares = sorted(self._seen)
            self._seen.clear()
            self._bounds.clear()


def _cut(lengths: Sequence[int], count: int) -> list[int]:
    """Bounds between `count` ranges that hold equal shares of the text of prompts of these lengths, which
    are sorted; equal ranges when there is no text."""
    total = sum(lengths)
    if not total:
        return [FIRST_END * number // count for number in range(1, count)]
    bounds: list[int] = []
    so_far = 0
    for length in lengths:
        # A prompt belongs to the range in which the middle of it lies.
        while len(bounds) < count - 1 and (so_far + length / 2) * count > total * (len(bounds) + 1):
            bounds.append(length)
        so_far += length
    return bounds + [lengths[-1] + 1] * (count - 1 - len(bounds))
