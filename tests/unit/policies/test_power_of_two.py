"""The lighter of two at random."""

from collections import Counter

from smg.policies.load import in_flight
from smg.policies.power_of_two import PowerOfTwo
from tests.unit.policies.fleet import ask, dice, fleet


def test_the_busiest_is_never_and_the_idlest_mostly_chosen() -> None:
    policy, workers = PowerOfTwo(in_flight, dice()), fleet(3, loads=[5, 0, 1])
    counts = Counter(policy.choose(workers, ask()) for _ in range(300))
    assert counts[workers[0]] == 0
    assert counts[workers[1]] > counts[workers[2]] > 0


def test_one_worker_is_enough() -> None:
    workers = fleet(1)
    assert PowerOfTwo(in_flight, dice()).choose(workers, ask()) is workers[0]


def test_equals_share() -> None:
    policy, workers = PowerOfTwo(in_flight, dice()), fleet(2)
    counts = Counter(policy.choose(workers, ask()) for _ in range(400))
    assert min(counts.values()) > 140
