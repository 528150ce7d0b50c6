"""What caches are believed to hold, and how their reach is learnt from the times to first token."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from smg.policies.caches import NEVER_GONE, REACHES, Caches
from smg.policies.prefill import Prefill
from smg.policies.prefix_index import Prompt, prompt_of
from smg.workers.worker import Worker
from tests.unit.policies.fleet import ask, fleet, hinted

FIXED_S, PER_BYTE_S = 0.02, 1e-5
BLOCK = 512


def prompt(text: str) -> Prompt:
    found = prompt_of(ask(text))
    assert found is not None
    return found


def give(caches: Caches, text: str, worker: Worker) -> None:
    path = caches.path(prompt(text))
    caches.use(path, worker, path.size - caches.held(path, worker))


def test_what_was_given_is_held_and_what_came_long_before_is_not() -> None:
    caches, (one, other) = Caches(1 << 20), fleet(2)
    give(caches, "a" * 5000, one)
    path = caches.path(prompt("a" * 5000 + "b" * 1000))
    assert 4900 <= caches.held(path, one) <= 5000
    assert caches.held(path, other) == 0
    caches.believed = 0
    for number in range(3):
        give(caches, f"{number}" * REACHES[0], one)
    assert caches.held(path, one) == 0
    missing = caches.missing(path, one)
    assert missing[0] == 6000 and missing[NEVER_GONE] <= 1100
    assert list(missing) == sorted(missing, reverse=True)


def test_engines_can_tell_better_and_a_worker_that_is_gone_holds_nothing() -> None:
    caches, (one,) = Caches(1 << 20), fleet(1)
    give(caches, "a" * 5000, one)
    path = caches.path(prompt("a" * 5000))
    caches.drop(path, one, 2000)
    assert 1900 <= caches.held(path, one) <= 2000
    caches.forget(one)
    assert caches.held(path, one) == 0
    give(caches, "a" * 100, one)
    assert caches.held(path, one) <= 100


def test_hinted_tokens_count_four_bytes_each() -> None:
    caches, (one,) = Caches(1 << 20), fleet(1)
    found = prompt_of(hinted(range(100)))
    assert found is not None
    path = caches.path(found)
    assert path.size == 400
    caches.use(path, one, 400)
    assert caches.held(path, one) == 400


@pytest.mark.parametrize("room", [64 * 1024, 256 * 1024, 1 << 40])
def test_the_reach_of_the_caches_is_learnt(room: int) -> None:
    """Engines that keep the blocks used last: prompts that come back after a while tell how many."""
    caches, workers, chance = Caches(1 << 22), fleet(4), random.Random(3)
    prefills = {worker: Prefill(caches.candidates, caches.believed) for worker in workers}
    held: dict[Worker, OrderedDict[str, None]] = {worker: OrderedDict() for worker in workers}
    texts = [f"{number:06}" * (chance.randint(2, 40) * BLOCK // 6) for number in range(60)]
    now = 0.0
    for number in range(1200):
        worker, text = chance.choice(workers), chance.choice(texts)
        path, cache = caches.path(prompt(text)), held[worker]
        missing = caches.missing(path, worker)
        prefills[worker].send(number, missing, now)
        caches.use(path, worker, missing[caches.believed])
        spent = FIXED_S + PER_BYTE_S * (0 if text in cache else len(text))
        cache[text] = None
        cache.move_to_end(text)
        while sum(map(len, cache)) > room:
            cache.popitem(last=False)
        now += spent
        prefills[worker].first_event(number, now)
        caches.learn(prefills.values())
    if room > 1 << 30:
        assert caches.believed == NEVER_GONE
    else:
        assert room / 3 <= REACHES[caches.believed] <= room * 1.5
    assert all(p.per_byte_s == pytest.approx(PER_BYTE_S, rel=0.3) for p in prefills.values())
