"""Slow start seen from the policies: equal shares among equals, a growing one for who comes later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from smg.config.protection import Protection
from smg.config.routing import Routing
from smg.policies.cache_aware import CacheAware
from smg.policies.choose import POLICIES, Policy
from smg.policies.consistent_hashing import ConsistentHashing
from smg.policies.ramp import Ramp, warming
from smg.policies.round_robin import RoundRobin
from smg.workers.worker import Worker
from tests.unit.policies.fleet import ask, worker
from tests.unit.workers.test_warmup import Fleet

RAMPED = ("round_robin", "random", "power_of_two", "least_load")


def make(fleet: Fleet, name: str, **options: int) -> Policy:
    return warming(lambda: POLICIES[name](Routing()), fleet.warmup, Protection(**options))()  # type: ignore[arg-type]


def shares(policy: Policy, workers: list[Worker], count: int, hold: int = 0) -> Counter[Worker]:
    """How often each was chosen, the last `hold` requests being in flight all the while."""
    counts: Counter[Worker] = Counter()
    running: list[Worker] = []
    for _ in range(count):
        chosen = policy.choose(workers, ask("x"))
        assert chosen is not None
        counts[chosen] += 1
        chosen.load += 1
        running.append(chosen)
        if len(running) > hold:
            running.pop(0).load -= 1
    for one in running:
        one.load -= 1
    return counts


def test_equals_have_exactly_equal_turns() -> None:
    fleet = Fleet(old=4)
    assert set(shares(make(fleet, "round_robin"), fleet.all, 400).values()) == {100}


@pytest.mark.parametrize("name", RAMPED)
def test_a_new_worker_is_neither_flooded_nor_starved(name: str) -> None:
    fleet = Fleet(old=3)
    policy, new = make(fleet, name), fleet.add(worker(9))
    first = shares(policy, fleet.all, 4000, hold=40)[new]
    fleet.clock.now += 45
    later = shares(policy, fleet.all, 4000, hold=40)[new]
    fleet.clock.now += 15
    last = shares(policy, fleet.all, 4000, hold=40)[new]
    assert 100 < first < later < 1100
    assert 800 < last < 1200


def test_turned_off() -> None:
    fleet = Fleet(seconds=0)
    assert isinstance(make(fleet, "round_robin", worker_warmup_secs=0), RoundRobin)
    cache_aware = make(fleet, "cache_aware", worker_warmup_secs=0)
    assert isinstance(cache_aware, CacheAware)
    assert cache_aware.divert is None


@pytest.mark.parametrize(("name", "kind"), [("round_robin", Ramp), ("consistent_hashing", ConsistentHashing)])
def test_keys_keep_their_place(name: str, kind: Callable[..., Policy]) -> None:
    assert type(make(Fleet(), name)) is kind
