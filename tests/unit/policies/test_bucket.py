"""bucket: ranges of prompt lengths that follow the requests, and load that breaks them."""

from __future__ import annotations

from collections import Counter

from smg.policies.bucket import Bucket
from tests.clock import Clock
from tests.unit.policies.fleet import ask, dice, fleet


def bucket(clock: Clock, balance_abs: float = 64) -> Bucket:
    return Bucket(5, balance_abs, 1.5, clock)


def test_the_first_ranges_are_equal() -> None:
    policy, workers = bucket(Clock()), fleet(4)
    assert policy.bounds(4) == [1024, 2048, 3072]
    chosen = [policy.choose(workers, ask("x" * length)) for length in (10, 1023, 1024, 2500, 4000, 99_999)]
    assert chosen == [workers[n] for n in (0, 0, 1, 2, 3, 3)]


def test_the_order_of_the_candidates_does_not_matter() -> None:
    policy, workers = bucket(Clock()), fleet(3)
    for length in (10, 2000, 4000):
        assert policy.choose(workers, ask("x" * length)) is policy.choose(workers[::-1], ask("x" * length))


def test_each_gets_as_much_text() -> None:
    clock, rng = Clock(), dice()
    policy, workers = bucket(clock), fleet(3)
    lengths = [int(rng.paretovariate(1.2) * 50) % 50_000 for _ in range(4000)]
    for length in lengths:
        policy.choose(workers, ask("x" * length))
    clock.now += 5
    text: Counter[str] = Counter()
    for length in lengths:
        chosen = policy.choose(workers, ask("x" * length))
        assert chosen is not None
        text[chosen.url] += length
    share = sum(lengths) / 3
    assert all(0.85 * share < text[worker.url] < 1.15 * share for worker in workers)


def test_ranges_stay_while_nobody_asks() -> None:
    clock = Clock()
    policy, workers = bucket(clock), fleet(2)
    for _ in range(10):
        policy.choose(workers, ask("x" * 100))
        policy.choose(workers, ask("x" * 1000))
    clock.now += 5
    policy.choose(workers, ask("x"))
    bounds = policy.bounds(2)
    assert bounds == [1000]
    clock.now += 100
    policy.choose(workers, ask("x" * 1000))
    assert policy.bounds(2) != [2048]


def test_one_length_for_all() -> None:
    clock = Clock()
    policy, workers = bucket(clock), fleet(3)
    for _ in range(10):
        policy.choose(workers, ask("x" * 100))
    clock.now += 5
    assert policy.choose(workers, ask("x" * 100)) in workers
    assert policy.choose(workers, ask("")) is workers[0]


def test_load_breaks_the_ranges() -> None:
    policy = bucket(Clock(), balance_abs=4)
    workers = fleet(2, [9, 4])
    assert policy.choose(workers, ask("x")) is workers[1]
    workers = fleet(2, [8, 4])
    assert policy.choose(workers, ask("x")) is workers[0]
    workers = fleet(2, [29, 24])
    assert policy.choose(workers, ask("x")) is workers[0]


def test_no_text_counts_as_none() -> None:
    policy, workers = bucket(Clock()), fleet(2)
    assert policy.choose(workers, ask()) is workers[0]
    assert policy.choose(workers[:1], ask("x" * 9999)) is workers[0]
