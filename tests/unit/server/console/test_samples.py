"""Rates and quantiles from counters that are read now and then."""

from __future__ import annotations

import pytest

from smg.server.console.samples import KEPT, Counted, Samples, between, quantile, rates


class Counters:
    """A clock and counters that move when told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0
        self.failures = 0
        self.samples = Samples(self.read, lambda: self.now)

    def read(self) -> Counted:
        return Counted(self.calls, self.failures, [], {})

    def move(self, seconds: float, calls: int = 0, failures: int = 0) -> None:
        self.now += seconds
        self.calls += calls
        self.failures += failures
        self.samples.take()


def test_points_are_what_happened_between_samples() -> None:
    counters = Counters()
    for calls, failures in ((0, 0), (10, 0), (4, 2)):
        counters.move(2.0, calls, failures)
    assert [tuple(point) for point in counters.samples.points()] == [(2.0, 5.0, 0.0), (0.0, 2.0, 1.0)]


def test_the_ring_is_bounded() -> None:
    counters = Counters()
    for _ in range(3 * KEPT):
        counters.move(1.0)
    assert len(counters.samples.points()) == KEPT - 1
    assert counters.samples.since(1e9).at == counters.now - KEPT + 1


@pytest.mark.parametrize(("seconds", "at"), [(0, 5), (1, 4), (1.5, 3), (4, 1), (100, 1)])
def test_the_sample_of_a_time_ago(seconds: float, at: float) -> None:
    counters = Counters()
    for _ in range(5):
        counters.move(1.0)
    assert counters.samples.since(seconds).at == at


def test_without_samples_there_is_one_of_now() -> None:
    assert Counters().samples.since(60).at == 0.0


def test_two_samples_of_one_moment_have_no_rate() -> None:
    counters = Counters()
    counters.move(1.0)
    assert rates(counters.samples.take(), counters.samples.take()) == (0.0, 0.0)


def test_differences_of_buckets() -> None:
    assert between([1, 2, 3], [1, 5, 4]) == [0, 3, 1]
    assert between([], [1, 2]) == [1, 2]


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ([0, 0, 0], 0.5, None),
        ([4, 0, 0], 0.5, 0.5),
        ([4, 0, 0], 1.0, 1.0),
        ([0, 4, 0], 0.5, 2.0),
        ([2, 2, 0], 0.5, 1.0),
        ([1, 1, 2], 0.99, 3.0),
        ([0, 0, 7], 0.5, 3.0),
        ([1, 0, 1], 0.5, 1.0),
    ],
)
def test_quantiles(counts: list[float], share: float, value: float | None) -> None:
    assert quantile([1.0, 3.0], counts, share) == value
