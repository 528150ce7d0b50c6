"""Equal shares, also while workers come and go."""

from collections import Counter

from smg.policies.round_robin import RoundRobin
from tests.unit.policies.fleet import ask, fleet


def test_shares_are_equal_and_in_order() -> None:
    policy, workers = RoundRobin(), fleet(3)
    picked = [policy.choose(workers, ask()) for _ in range(9)]
    assert picked == [*workers] * 3


def test_a_list_that_shrinks_is_no_matter() -> None:
    policy, workers = RoundRobin(), fleet(4)
    for _ in range(3):
        policy.choose(workers, ask())
    counts = Counter(policy.choose(workers[:2], ask()) for _ in range(10))
    assert counts == {workers[0]: 5, workers[1]: 5}
