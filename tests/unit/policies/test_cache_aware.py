"""Affinity to the holder of a prefix, and when it yields to load."""

from __future__ import annotations

from collections import Counter

import pytest

from smg.policies.cache_aware import CacheAware, Spill
from smg.policies.placement import PlacementIndex
from smg.policies.prefix_index import PrefixIndex
from smg.workers.worker import Worker
from tests.clock import Clock
from tests.unit.policies.fleet import ask, dice, fleet, hinted, report

HEAD = "the system prompt of everybody. " * 64


def make(spill: Spill | None = None, threshold: float = 0.3) -> CacheAware:
    return CacheAware(PrefixIndex(1 << 20), threshold, spill or Spill(64, 1.5), dice())


def placed(policy: CacheAware, workers: tuple[Worker, ...], text: str) -> Worker:
    worker = policy.choose(workers, ask(text))
    assert worker is not None
    return worker


def test_the_same_prompt_goes_to_the_same_worker() -> None:
    policy, workers = make(), fleet(8)
    home = placed(policy, workers, HEAD)
    home.load = 1
    assert all(placed(policy, workers, HEAD + "x" * n) is home for n in range(20))


def test_a_small_share_is_no_affinity() -> None:
    policy, workers = make(threshold=0.5), fleet(2)
    home = placed(policy, workers, HEAD)
    home.load = 1
    assert placed(policy, workers, HEAD + "y" * 2 * len(HEAD)) is not home


def test_a_miss_never_goes_to_the_busiest() -> None:
    """Nor to the worker that is stuck (FF-24)."""
    policy, workers = make(), fleet(4, loads=[9, 1, 1, 1])
    picked = {placed(policy, workers, f"{number:05}" * 100) for number in range(60)}
    assert picked == set(workers[1:])


def test_of_several_holders_the_least_loaded() -> None:
    policy, workers = make(), fleet(3)
    for worker in workers[:2]:
        assert placed(policy, (worker,), HEAD) is worker
    workers[0].load = 1
    assert placed(policy, workers, HEAD) is workers[1]


def test_surplus_of_one_prompt_spills() -> None:
    """200 at once: beyond both thresholds they go to the others (FF-24)."""
    policy, workers = make(), fleet(4)
    for number in range(200):
        placed(policy, workers, f"{HEAD}{number}").load += 1
    assert max(worker.load for worker in workers) <= 76  # mean 50, times 1.5


def test_a_holder_that_is_no_candidate_is_passed_over() -> None:
    policy, workers = make(), fleet(2)
    home = placed(policy, workers, HEAD)
    others = tuple(worker for worker in workers if worker is not home)
    assert placed(policy, others, HEAD) is others[0]


@pytest.mark.parametrize(
    ("loads", "absolute", "relative", "past"),
    [
        ([5, 0, 0, 0], 64, 1.5, False),  # mean 1.25, margin 4
        ([6, 0, 0, 0], 64, 1.5, True),  # mean 1.5, margin 4
        ([3, 0, 0, 0], 1, 1.0, True),  # the flag may be lower than 4
        ([116, 96, 94, 94], 64, 1.0, False),  # mean 100, two deviations are 20
        ([122, 94, 92, 92], 64, 1.0, True),
        ([122, 94, 92, 92], 64, 1.5, False),
    ],
)
def test_spill_by_load(loads: list[int], absolute: float, relative: float, past: bool) -> None:
    workers = fleet(len(loads), loads)
    assert Spill(absolute, relative).is_past(workers[0], workers) is past


@pytest.mark.parametrize(
    ("usage", "spread", "ceiling", "past"),
    [
        ([0.9, 0.1], 1.0, 1.0, False),
        ([0.9, 0.1], 0.5, 1.0, True),
        ([0.9, 0.6], 0.5, 1.0, False),
        ([0.9, 0.9], 1.0, 0.8, True),
        ([0.7, 0.7], 1.0, 0.8, False),
        ([None, None], 0.5, 0.5, False),
    ],
)
def test_spill_by_cache_usage(usage: list[float | None], spread: float, ceiling: float, past: bool) -> None:
    workers = fleet(len(usage))
    for worker, share in zip(workers, usage, strict=True):
        worker.report = report(token_usage=share) if share is not None else None
    assert Spill(64, 1.5, spread, ceiling).is_past(workers[0], workers) is past


def test_without_a_prompt_load_decides() -> None:
    workers = fleet(3, loads=[1, 0, 1])
    assert make().choose(workers, ask()) is workers[1]


def test_equally_loaded_workers_share_what_is_new() -> None:
    policy, workers = make(), fleet(4)
    counts = Counter(placed(policy, workers, f"{number:05}" * 100) for number in range(200))
    assert min(counts.values()) > 25


def test_prompts_placed_by_others_are_known() -> None:
    policy, workers = make(), fleet(8)
    policy.placed(workers[5], ask(HEAD))
    policy.placed(workers[4], ask())
    assert placed(policy, workers, HEAD) is workers[5]


def test_a_worker_that_is_gone_is_forgotten() -> None:
    policy, workers = make(), fleet(2)
    home = placed(policy, workers, HEAD)
    policy.forget(home)
    home.load = 1
    assert placed(policy, workers, HEAD) is not home


def test_with_placement_index() -> None:
    index = PlacementIndex([4], 180, Clock())
    policy, workers = CacheAware(index, 0.3, Spill(64, 1.5), dice()), fleet(8)
    home = policy.choose(workers, hinted([1, 2, 3, 4]))
    assert home is not None
    home.load = 1
    assert all(policy.choose(workers, hinted([1, 2, 3, 4, n])) is home for n in range(10))
    assert policy.choose(workers, hinted([1, 2, 3])) is not home


@pytest.mark.parametrize("kind", ["text", "tokens"])
def test_a_flood_of_unique_prompts_meets_a_hard_bound(kind: str) -> None:
    """Memory reaches its plateau at once and stays there, without waiting for any tick (FF-23)."""
    index = PrefixIndex(50_000)
    policy, workers = CacheAware(index, 0.3, Spill(64, 1.5), dice()), fleet(4)
    text, tree = index._text, index._tree
    taken = []
    for number in range(4000):
        if kind == "text":
            request = ask(HEAD[:100] + f"{number:08} " * 440)
        else:
            request = hinted([*range(25), *(number * 400 + place for place in range(400))])
        assert policy.choose(workers, request) in workers
        taken.append(text.bytes + tree.bytes)
    assert max(taken) <= 2 * (6 * 50_000 + (256 << 10))
    assert max(taken[2000:]) <= max(taken[:2000])
