"""Which workers are spared, and who gets a request when all are overloaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.workers.overload import Overload, is_past, pressure
from smg.workers.registry import Registry
from smg.workers.worker import Status, Thresholds, Worker
from tests.unit.policies.fleet import report, worker

BOTH = Thresholds(8, 0.8)


def reporting(port: int = 1, bounds: Thresholds = BOTH, **said: float) -> Worker:
    one = worker(port)
    one.thresholds = bounds
    one.reported(report(**said))
    return one


@pytest.mark.parametrize(
    ("bounds", "said", "past"),
    [
        (BOTH, {"waiting_requests": 8}, True),
        (BOTH, {"waiting_requests": 7}, False),
        (BOTH, {"token_usage": 0.8}, True),
        (BOTH, {"token_usage": 0.79}, False),
        (Thresholds(None, 0.8), {"waiting_requests": 99}, False),
        (Thresholds(8, None), {"token_usage": 1.0}, False),
        (Thresholds(), {"waiting_requests": 99, "token_usage": 1.0}, False),
    ],
)
def test_thresholds_include_their_value(bounds: Thresholds, said: dict[str, float], past: bool) -> None:
    assert is_past(reporting(bounds=bounds, **said)) is past


def test_without_a_report_nobody_is_overloaded() -> None:
    one = reporting(waiting_requests=9)
    one.reported(None)
    assert not is_past(one)
    assert pressure(one) == 0


class Fleet:
    def __init__(self, sheds: bool = False) -> None:
        self.registry = Registry()
        self.overload = Overload(self.registry, sheds, 10)

    def add(self, *workers: Worker) -> None:
        for one in workers:
            self.registry.add(one)
            self.registry.set_status(one, Status.READY)
            self.overload.judge(one)


def test_the_overloaded_are_spared() -> None:
    fleet, busy, free = Fleet(), reporting(1, waiting_requests=9), reporting(2)
    fleet.add(busy, free)
    assert fleet.overload.workers == {busy}
    assert fleet.overload.spare((busy, free)) == (free,)
    busy.reported(report())
    fleet.overload.judge(busy)
    assert not fleet.overload.workers


@pytest.mark.parametrize("end", ["status", "removed"])
def test_who_is_no_longer_routed_to_is_not_counted(end: str) -> None:
    fleet, busy = Fleet(), reporting(1, waiting_requests=9)
    fleet.add(busy)
    if end == "status":
        fleet.registry.set_status(busy, Status.NOT_READY)
        fleet.overload.judge(busy)
    else:
        fleet.registry.remove(busy)
    assert not fleet.overload.workers


def test_all_overloaded() -> None:
    """The least of them, requests that came after its report counted; or nobody."""
    nine, usage = reporting(1, waiting_requests=9), reporting(2, token_usage=0.95)
    kind, strict = Fleet(), Fleet(sheds=True)
    for fleet in (kind, strict):
        fleet.add(nine, usage)
    assert kind.overload.spare((nine, usage)) == (nine,)
    nine.sent_since_report = 4
    assert kind.overload.spare((nine, usage)) == (usage,)
    assert (kind.overload.fallbacks, kind.overload.shed) == (2, 0)
    assert strict.overload.spare((nine, usage)) == ()
    assert (strict.overload.fallbacks, strict.overload.shed) == (0, 1)


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1)), min_size=1, max_size=8), st.booleans())
def test_somebody_free_is_always_preferred(said: list[tuple[int, float]], sheds: bool) -> None:
    fleet = Fleet(sheds)
    workers = [
        reporting(number + 1, waiting_requests=waiting, token_usage=usage)
        for number, (waiting, usage) in enumerate(said)
    ]
    fleet.add(*workers)
    free = [one for one in workers if not is_past(one)]
    spared = fleet.overload.spare(tuple(workers))
    if free:
        assert list(spared) == free
    elif sheds:
        assert spared == ()
    else:
        (chosen,) = spared
        assert pressure(chosen) == min(map(pressure, workers))
