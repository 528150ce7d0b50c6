"""Where a prompt goes that no worker holds enough of: to the fewest requests, then to the emptiest cache.

Chance alone would fill one cache faster than another, and what it then evicts is missed later.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

from smg.workers.worker import Worker

MOST_BEHIND = 1 << 18
"""Bytes: a worker that is new, or was away, is no further behind the others than this, and so not flooded."""


class Spread:
    """Counts the bytes of text that were new to each worker."""

    __slots__ = ("_given", "_random")

    def __init__(self, rng: random.Random) -> None:
        self._given: dict[Worker, int] = {}
        self._random = rng

    def choose(self, candidates: Sequence[Worker], holders: Collection[Worker]) -> Worker:
        """One of those with the fewest requests in flight; a worker of `holders`, which hold some of the
        prompt, counts among them if chance alone may have given it more. Of these holders, or else of all,
        the one that was given least; then by chance."""
        loads = [worker.load for worker in candidates]
        least = min(loads)
        equals: list[Worker] = []
        if holders and len(candidates) > 1:
            most = least + math.isqrt(least) if least > 1 else least
            equals = [w for w, load in zip(candidates, loads, strict=True) if load <= most and w in holders]
        if not equals:
            equals = [w for w, load in zip(candidates, loads, strict=True) if load == least]
        if len(equals) == 1:
            return equals[0]
        given = [self._given.get(worker, 0) for worker in equals]
        floor = max(given) - MOST_BEHIND
        for place, one in enumerate(given):
            if one < floor:
                given[place] = self._given[equals[place]] = floor
        lowest = min(given)
        return self._random.choice([w for w, one in zip(equals, given, strict=True) if one == lowest])

    def note(self, worker: Worker, size: int) -> None:
        """So many bytes of a prompt were new to the worker."""
        if size > 0:
            self._given[worker] = self._given.get(worker, 0) + size

    def forget(self, worker: Worker) -> None:
        self._given.pop(worker, None)
