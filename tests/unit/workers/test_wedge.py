"""Engines that hang, and engines that are only slow."""

from __future__ import annotations

import pytest

from smg.workers.registry import Registry
from smg.workers.wedge import LOOK_S, MOST_S, WedgeWatch
from smg.workers.worker import EXTERNAL, PREFILL, Status, Worker
from tests.clock import Clock
from tests.unit.policies.fleet import report, worker


class Backend:
    heard_at = 0.0


class Case:
    """One worker, looked at every half second."""

    def __init__(self) -> None:
        self.clock, self.registry, self.backend = Clock(), Registry(), Backend()
        self.worker = worker(1)
        self.worker.backend = self.backend  # type: ignore[assignment]
        self.registry.add(self.worker)
        self.registry.set_status(self.worker, Status.READY)
        self.watch = WedgeWatch(self.registry, 3, self.clock)
        self.watch.look()

    def stuck_after(self, seconds: float, load: int | None = None) -> bool:
        if load is not None:
            self.worker.load = load
        for _ in range(int(seconds / LOOK_S)):
            self.clock.now += LOOK_S
            self.watch.look()
        return self.worker in self.registry.stuck

    def byte(self) -> None:
        self.backend.heard_at = self.clock.now


@pytest.fixture
def case() -> Case:
    return Case()


def test_four_requests_without_a_byte(case: Case) -> None:
    assert not case.stuck_after(3, load=4)
    assert case.stuck_after(0.5)
    assert case.stuck_after(50)
    case.byte()
    assert not case.stuck_after(0.5)


def test_few_requests_may_be_long(case: Case) -> None:
    assert not case.stuck_after(100, load=3)
    assert case.stuck_after(0.5, load=4)


def test_a_pile_that_grows(case: Case) -> None:
    case.stuck_after(1, load=1)
    assert not case.stuck_after(1, load=2)
    assert case.stuck_after(2)


def test_a_queue_that_grows(case: Case) -> None:
    case.worker.reported(report(waiting_requests=2))
    case.stuck_after(1, load=2)
    case.worker.reported(report(waiting_requests=3))
    assert case.stuck_after(3)


@pytest.mark.parametrize("what", ["bytes", "answers"])
def test_who_goes_on_is_not_stuck(case: Case, what: str) -> None:
    case.worker.load = 50
    for _ in range(40):
        assert not case.stuck_after(2.5)
        if what == "bytes":
            case.byte()
        else:
            case.worker.done_at = case.clock.now


def test_who_is_idle_is_not_stuck(case: Case) -> None:
    assert not case.stuck_after(100, load=0)
    assert not case.stuck_after(3, load=9)  # the silence before does not count
    assert not case.stuck_after(0.5, load=0)


def test_a_slow_engine_is_granted_more_the_next_time(case: Case) -> None:
    assert case.stuck_after(8, load=6)
    case.byte()
    assert not case.stuck_after(14)
    assert case.stuck_after(3)


def test_but_not_for_ever(case: Case) -> None:
    case.stuck_after(1000, load=6)
    case.byte()
    assert not case.stuck_after(MOST_S - 1)
    assert case.stuck_after(2)


def test_patience_fades(case: Case) -> None:
    case.stuck_after(20, load=6)
    case.byte()
    for _ in range(400):
        case.stuck_after(0.5)
        case.byte()
    case.stuck_after(0.5)
    assert case.stuck_after(4)


@pytest.mark.parametrize("why", ["status", "removed", "provider", "half", "no backend"])
def test_who_is_not_judged(case: Case, why: str) -> None:
    assert case.stuck_after(10, load=6)
    one: Worker = case.worker
    if why == "status":
        case.registry.set_status(one, Status.NOT_READY)
    elif why == "removed":
        case.registry.remove(one)
    elif why == "provider":
        one.runtime = EXTERNAL
    elif why == "half":
        one.worker_type = PREFILL
    else:
        one.backend = None
    assert not case.stuck_after(10)
