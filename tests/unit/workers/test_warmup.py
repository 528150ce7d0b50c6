"""Who is cold, and how much a cold worker may have."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.workers.registry import Registry
from smg.workers.warmup import BLOCK_BYTES, Warmup
from smg.workers.worker import Status, Worker
from tests.clock import Clock
from tests.unit.policies.fleet import dice, worker


class Fleet:
    """Two old workers, and who comes later."""

    def __init__(self, seconds: float = 60, share: float = 0.25, blocks: int = 10, old: int = 2) -> None:
        self.clock = Clock()
        self.registry = Registry()
        self.warmup = Warmup(self.registry, seconds, share, blocks, dice(), self.clock)
        self.old = [self.add(worker(1 + number)) for number in range(old)]
        self.clock.now += 1000

    def add(self, one: Worker) -> Worker:
        self.registry.add(one)
        self.registry.set_status(one, Status.READY)
        return one

    @property
    def all(self) -> list[Worker]:
        return [w for w in self.registry.all() if w.status is Status.READY]


def test_workers_that_start_together_are_warm() -> None:
    fleet = Fleet(old=0)
    for port in range(5):
        fleet.add(worker(port + 1))
        fleet.clock.now += 59 / 5
    assert not fleet.warmup.cold
    assert fleet.warmup.admit(fleet.all) == fleet.all


def test_who_joins_later_or_comes_back_is_cold_for_a_time() -> None:
    fleet = Fleet()
    new = fleet.add(worker(9))
    assert set(fleet.warmup.cold) == {new}
    fleet.clock.now += 60
    assert fleet.warmup.admit(fleet.all) == fleet.all
    assert not fleet.warmup.cold
    fleet.registry.set_status(fleet.old[0], Status.NOT_READY)
    fleet.registry.set_status(fleet.old[0], Status.READY)
    assert set(fleet.warmup.cold) == {fleet.old[0]}
    fleet.registry.set_status(fleet.old[0], Status.NOT_READY)
    assert not fleet.warmup.cold


def test_another_models_workers_do_not_make_one_cold() -> None:
    fleet = Fleet()
    fleet.add(worker(9, "other"))
    assert not fleet.warmup.cold


def test_it_can_be_turned_off() -> None:
    fleet = Fleet(seconds=0)
    fleet.add(worker(9))
    assert not fleet.warmup.cold


def test_the_share_grows() -> None:
    fleet = Fleet()
    new = fleet.add(worker(9))
    parts = []
    for _ in range(5):
        parts.append(fleet.warmup.progress(new, fleet.clock.now))
        fleet.clock.now += 15
    assert parts == pytest.approx([0.25, 0.4375, 0.625, 0.8125, 1])


def test_enough_prompts_make_it_warm() -> None:
    fleet = Fleet(blocks=10)
    new = fleet.add(worker(9))
    fleet.warmup.sent(new, 10 * BLOCK_BYTES - 1)
    assert new in fleet.warmup.cold
    fleet.warmup.sent(new, 1)
    assert new not in fleet.warmup.cold


def test_shown_in_proportion_and_not_when_it_is_busy() -> None:
    fleet = Fleet()
    new = fleet.add(worker(9))
    for one in fleet.old:
        one.load = 8
    shown = Counter(new in fleet.warmup.admit(fleet.all) for _ in range(4000))
    assert 850 < shown[True] < 1150
    new.load = 3  # one more than a quarter of the others' would be
    assert not any(new in fleet.warmup.admit(fleet.all) for _ in range(100))


def test_cold_workers_alone_take_all() -> None:
    fleet = Fleet()
    new = fleet.add(worker(9))
    assert fleet.warmup.admit([new]) == [new]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 50)), min_size=1, max_size=8),
    st.floats(0, 1),
    st.integers(0, 100),
)
def test_warm_workers_are_always_shown(makeup: list[tuple[bool, int]], share: float, seconds: int) -> None:
    """And somebody always is, in the order there was."""
    fleet = Fleet(share=share)
    fleet.warmup._random = random.Random(seconds)
    candidates = []
    for number, (is_cold, load) in enumerate(makeup):
        one = fleet.add(worker(100 + number)) if is_cold else worker(100 + number)
        one.load = load
        candidates.append(one)
    fleet.clock.now += seconds
    warm = [w for w in candidates if fleet.warmup.progress(w, fleet.clock.now) >= 1]
    admitted = list(fleet.warmup.admit(candidates))
    assert admitted
    assert [w for w in candidates if w in admitted] == admitted
    assert set(warm) <= set(admitted)
