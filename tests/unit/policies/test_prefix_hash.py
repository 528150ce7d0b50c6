"""Prompts with one head at one worker, as long as it is not crowded."""

from collections.abc import Sequence

from smg.policies.prefix_hash import PrefixHash
from smg.workers.worker import Worker
from tests.unit.policies.fleet import ask, dice, fleet, hinted, keyed


def make(count: int = 4, boundaries: Sequence[int] = (), factor: float = 1.25, above: int = 10) -> PrefixHash:
    return PrefixHash(count, boundaries, factor, above, dice())


def places(policy: PrefixHash, workers: Sequence[Worker], heads: Sequence[str]) -> list[Worker | None]:
    return [policy.choose(workers, ask(head)) for head in heads]


def test_the_head_alone_decides() -> None:
    policy, workers = make(), fleet(8)
    heads = [f"head number {number:04}" for number in range(60)]  # 16 characters count
    homes = places(policy, workers, heads)
    assert len(set(homes)) == 8
    assert places(policy, workers, [head + " and its tail" for head in heads]) == homes
    assert len(set(places(policy, workers, ["x" * 14 + f"{n:02}" for n in range(60)]))) > 1


def test_tokens_and_keys_come_before_the_text() -> None:
    policy, workers = make(), fleet(8)
    for number in range(20):
        home = policy.choose(workers, hinted([number, 2, 3, 4], text=f"one {number}"))
        assert policy.choose(workers, hinted([number, 2, 3, 4, 5], text=f"other {number}")) is home
        key = b"k%d" % number
        assert policy.choose(workers, keyed(key)) is policy.choose(
            workers, ask(f"text {number}", {b"x-smg-routing-key": key})
        )


def test_the_deepest_boundary_that_is_reached_counts() -> None:
    policy, workers = make(count=2, boundaries=[8, 4]), fleet(8)
    heads = [(n, n, n, n) for n in range(40)]
    four = [policy.choose(workers, hinted([*head, 5, 5, 5])) for head in heads]
    assert four == [policy.choose(workers, hinted([*head, 6, 6])) for head in heads]
    assert four != [policy.choose(workers, hinted([*head, 5, 5, 5, 5])) for head in heads]


def test_a_crowded_worker_is_passed_over_only_by_both_bounds() -> None:
    policy, workers = make(factor=2.0, above=3), fleet(4)
    home = policy.choose(workers, ask("a text to be placed"))
    assert home is not None
    home.load = 4  # mean 1, above 2 and not above 4
    assert policy.choose(workers, ask("a text to be placed")) is home
    home.load = 5  # mean 1.25, above 2.5 and above 4.25
    assert policy.choose(workers, ask("a text to be placed")) is not home


def test_nothing_to_hash_goes_by_load() -> None:
    workers = fleet(3, loads=[1, 0, 1])
    assert make().choose(workers, ask()) is workers[1]


def test_a_worker_that_is_gone_is_forgotten() -> None:
    policy, workers = make(), fleet(2)
    home = policy.choose(workers, ask("a text to be placed"))
    assert home is not None
    policy.forget(home)
    left = tuple(worker for worker in workers if worker is not home)
    assert policy.choose(left, ask("a text to be placed")) is left[0]
