"""Prompts that nobody holds: to the fewest requests, then evenly over the caches."""

from __future__ import annotations

from collections import Counter

from smg.policies.spread import MOST_BEHIND, Spread
from tests.unit.policies.fleet import dice, fleet


def test_fewest_requests_come_first() -> None:
    spread, workers = Spread(dice()), fleet(3, loads=[2, 1, 2])
    spread.note(workers[1], 10**9)
    assert spread.choose(workers, workers[:1]) is workers[1]


def test_of_equals_a_holder_of_a_part() -> None:
    spread, workers = Spread(dice()), fleet(3)
    spread.note(workers[2], 10**9)
    assert spread.choose(workers, workers[2:]) is workers[2]


def test_a_holder_of_a_part_may_have_what_chance_explains() -> None:
    spread, workers = Spread(dice()), fleet(3, loads=[4, 6, 7])
    assert spread.choose(workers, workers[1:]) is workers[1]
    assert spread.choose(workers, workers[2:]) is workers[0]
    spread.note(workers[0], 10)
    assert spread.choose(workers, workers[:2]) is workers[1]


def test_of_equals_the_one_that_was_given_least() -> None:
    spread, workers = Spread(dice()), fleet(4)
    sizes = Counter(dict.fromkeys(workers, 0))
    for number in range(400):
        worker = spread.choose(workers, ())
        size = 100 + 7919 * number % 3000
        spread.note(worker, size)
        sizes[worker] += size
    assert max(sizes.values()) - min(sizes.values()) <= 3100


def test_chance_decides_at_the_beginning() -> None:
    spread, workers = Spread(dice()), fleet(8)
    assert len({spread.choose(workers, ()) for _ in range(200)}) == 8


def test_a_worker_that_comes_late_is_not_flooded() -> None:
    spread, workers = Spread(dice()), fleet(3)
    for worker in workers[:2]:
        spread.note(worker, 100 * MOST_BEHIND)
    taken: Counter[object] = Counter()
    for _ in range(3000):
        worker = spread.choose(workers, ())
        spread.note(worker, 1024)
        taken[worker] += 1
    late = taken[workers[2]]
    assert 1000 < late <= 1000 + MOST_BEHIND // 1024
    spread.forget(workers[2])
    assert spread.choose(workers, ()) is workers[2]
