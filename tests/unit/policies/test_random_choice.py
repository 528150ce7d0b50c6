"""Any worker, with equal chances."""

from collections import Counter

from smg.policies.random_choice import RandomChoice
from tests.unit.policies.fleet import ask, fleet


def test_all_are_equally_likely() -> None:
    policy, workers = RandomChoice(seed=3), fleet(4)
    counts = Counter(policy.choose(workers, ask()) for _ in range(4000))
    assert set(counts) == set(workers)
    assert all(850 < count < 1150 for count in counts.values())


def test_a_seed_repeats_the_choices() -> None:
    workers = fleet(5)
    one, other = RandomChoice(seed=1), RandomChoice(seed=1)
    assert all(one.choose(workers, ask()) is other.choose(workers, ask()) for _ in range(20))
