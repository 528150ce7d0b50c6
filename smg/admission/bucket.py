"""A budget that refills all the time: takes what is there, says how long until there is enough."""

from __future__ import annotations

import math


class Bucket:
    """Holds at most `capacity`, gains `per_second`; starts full at time `now`. Times are seconds of any
    clock; one that goes back adds nothing."""

    __slots__ = ("_at", "_level", "capacity", "per_second")

    def __init__(self, capacity: float, per_second: float, now: float, share: float = 1.0) -> None:
        self.capacity = float(capacity)
        self.per_second = float(per_second)
        self._level = capacity * share
        self._at = now

    def level(self, now: float) -> float:
        """What is in it; below zero when more was used than there was."""
        elapsed = now - self._at
        if elapsed > 0:
            self._level = min(self.capacity, self._level + elapsed * self.per_second)
        self._at = now
        return self._level

    def wait_s(self, cost: float, now: float) -> float:
        """Seconds until `cost` can be paid: 0 now, infinity never."""
        missing = cost - self.level(now)
        if missing <= 0:
            return 0.0
        return missing / self.per_second if cost <= self.capacity else math.inf

    def take(self, cost: float, now: float) -> float:
        """Pay `cost` if it can be paid now; what `wait_s` says."""
        wait_s = self.wait_s(cost, now)
        if wait_s <= 0:
            self._level -= cost
        return wait_s

    def give(self, amount: float, now: float) -> None:
        """Put back `amount`, or take it even if that leaves less than nothing when it is negative."""
        self._level = min(self.capacity, self.level(now) + amount)
