"""Rates and quantiles of the last minutes, from counters that are read at intervals."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

KEPT = 61
"""With one a second, a minute."""
WINDOW_S = 60.0
RATE_S = 5.0


class Counted(NamedTuple):
    """Counters since the start: calls, failed ones, the buckets of times to the first token; calls and
    failures of each worker."""

    calls: int
    failures: int
    firsts: Sequence[float]
    workers: Mapping[str, tuple[int, int]]


class Sample(NamedTuple):
    at: float
    counted: Counted


class Point(NamedTuple):
    """Between two samples: how many seconds ago they ended, calls and failures a second."""

    ago_s: float
    calls: float
    failures: float


class Samples:
    """`read` gives the counters, `clock` seconds. The ring holds at most `KEPT` samples."""

    def __init__(self, read: Callable[[], Counted], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._ring: deque[Sample] = deque(maxlen=KEPT)

    def take(self) -> Sample:
        sample = Sample(self._clock(), self._read())
        self._ring.append(sample)
        return sample

    def since(self, seconds: float) -> Sample:
        """The latest sample that is at least so old, or the oldest there is; takes one when there is none."""
        limit = self._clock() - seconds
        if not self._ring:
            self.take()
        found = self._ring[0]
        for sample in self._ring:
            if sample.at > limit:
                break
            found = sample
        return found

    def points(self) -> list[Point]:
        """What happened between the samples, the oldest first."""
        now, points = self._clock(), []
        samples = list(self._ring)
        for old, new in itertools.pairwise(samples):
            calls, failures = rates(old, new)
            points.append(Point(round(now - new.at, 1), calls, failures))
        return points


def rates(old: Sample, new: Sample) -> tuple[float, float]:
    """Calls and failures a second."""
    seconds = new.at - old.at
    if seconds <= 0:
        return 0.0, 0.0
    calls = (new.counted.calls - old.counted.calls) / seconds
    return round(calls, 2), round((new.counted.failures - old.counted.failures) / seconds, 2)


def between(old: Sequence[float], new: Sequence[float]) -> list[float]:
    """What two readings of the same buckets differ by; an empty reading stands for zeros."""
    return [value - (old[place] if place < len(old) else 0) for place, value in enumerate(new)]


def quantile(bounds: Sequence[float], counts: Sequence[float], share: float) -> float | None:
    """The value below which a share of what the buckets count lies, by interpolation; None of nothing.

    `counts` has a bucket for each bound and one for what is above all of them.
    """
    total = sum(counts)
    if total <= 0:
        return None
    sums, so_far = [], 0.0
    for count in counts:
        so_far += count
        sums.append(so_far)
    wanted = share * total
    place = bisect_left(sums, wanted)
    if place >= len(bounds):
        return bounds[-1]
    low = bounds[place - 1] if place else 0.0
    within = wanted - (sums[place - 1] if place else 0.0)
    return low + (bounds[place] - low) * within / counts[place]
