"""The soonest first token: the landmark against other policies, and what the estimate is made of."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from smg.policies.ask import Ask
from smg.policies.cache_aware import CacheAware, Spill
from smg.policies.caches import Caches
from smg.policies.least_ttft import LeastTtft
from smg.policies.prefix_index import PrefixIndex
from smg.policies.round_robin import RoundRobin
from smg.workers.worker import Worker
from tests.clock import Clock
from tests.unit.policies.fleet import ask, dice, fleet
from tests.unit.policies.simulation import Request, Result, Simulation, conversations

ENGINES = 6
INDEX_TOKENS = 1 << 22
ROOM = 1500
WORKLOADS = {
    "chats": lambda: conversations(seed=1, count=260, rate=1.7, turns=6, system_prompts=8),
    "long talks": lambda: conversations(seed=2, count=110, rate=0.55, turns=14, system_prompts=2),
}
SPEEDS = {
    "even": [8000.0] * ENGINES,
    "uneven": [12000.0, 12000.0, 8000.0, 8000.0, 5000.0, 4000.0],
}


def least_ttft(rng: Random, clock: Callable[[], float]) -> LeastTtft:
    return LeastTtft(Caches(INDEX_TOKENS), rng, clock)


def cache_aware(rng: Random, clock: Callable[[], float]) -> CacheAware:
    return CacheAware(PrefixIndex(INDEX_TOKENS), 0.3, Spill(64, 1.5), rng)


def round_robin(rng: Random, clock: Callable[[], float]) -> RoundRobin:
    return RoundRobin()


@pytest.mark.parametrize("speeds", SPEEDS.values(), ids=SPEEDS)
@pytest.mark.parametrize("make_requests", WORKLOADS.values(), ids=WORKLOADS)
def test_first_tokens_come_sooner(make_requests: Callable[[], list[Request]], speeds: list[float]) -> None:
    requests = make_requests()

    def run(make: Callable[..., LeastTtft | CacheAware | RoundRobin]) -> Result:
        return Simulation(make, requests, speeds, room=ROOM).run()

    ours, affine, plain = run(least_ttft), run(cache_aware), run(round_robin)
    assert ours.mean_s <= 0.7 * plain.mean_s
    # Where hardly anybody waits, the two are equal but for chance.
    assert ours.mean_s <= 1.02 * affine.mean_s
    assert ours.hits >= 0.7 * affine.hits


def answer(one: Ask, clock: Clock, after: float) -> None:
    clock.now += after
    assert one.ticket is not None
    one.ticket.first_event(clock.now)
    one.ticket.end(clock.now)


def chosen(policy: LeastTtft, workers: tuple[Worker, ...], one: Ask) -> Worker:
    worker = policy.choose(workers, one)
    assert worker is not None
    return worker


def test_a_queue_outweighs_a_cached_prefix() -> None:
    policy, workers = least_ttft(dice(), Clock()), fleet(2)
    text = "x" * 4000
    home = chosen(policy, workers, ask(text))
    assert chosen(policy, (home,), ask("y" * 400_000)) is home
    assert chosen(policy, workers, ask(text + "z" * 40)) is not home


def test_the_holder_of_the_prefix_is_chosen_while_it_is_idle() -> None:
    clock, workers = Clock(), fleet(8)
    policy = least_ttft(dice(), clock)
    text = "x" * 4000
    homes = set()
    for turn in range(20):
        one = ask(text + "z" * 10 * turn)
        homes.add(chosen(policy, workers, one))
        answer(one, clock, 0.001 + (0.0001 if turn else 0.04))
    assert len(homes) == 1


def test_the_faster_worker_gets_the_more() -> None:
    clock, workers = Clock(), fleet(2)
    policy = least_ttft(dice(), clock)
    served = dict.fromkeys(workers, 0)
    for number in range(200):
        one = ask(f"{number:05}" * 200)
        worker = chosen(policy, workers, one)
        served[worker] += 1
        answer(one, clock, 0.1 if worker is workers[0] else 0.5)
    assert served[workers[0]] > 180
    assert served[workers[1]] >= 1


@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 10.0])
def test_a_fleet_that_starts_is_tried_as_a_whole(seconds: float) -> None:
    """Whatever its speed: no worker looks bad only because nobody has seen it."""
    clock, workers = Clock(), fleet(8)
    policy = least_ttft(dice(), clock)
    used = set()
    for number in range(8):
        one = ask(f"{number:05}" * 200)
        used.add(chosen(policy, workers, one))
        answer(one, clock, seconds)
    assert used == set(workers)


def test_one_slow_answer_is_not_held_against_a_worker_for_ever() -> None:
    clock, workers = Clock(), fleet(2)
    policy = least_ttft(dice(), clock)
    for worker, seconds in zip(workers, (0.1, 60.0), strict=True):
        one = ask("x" * 1000)
        chosen(policy, (worker,), one)
        answer(one, clock, seconds)
    for number in range(300):
        one = ask(f"{number:05}" * 200)
        if chosen(policy, workers, one) is workers[1]:
            return
        answer(one, clock, 1.0)
    raise AssertionError("never tried again")


def test_a_request_that_fails_leaves_the_queue_and_teaches_nothing() -> None:
    clock, workers = Clock(), fleet(2)
    policy = least_ttft(dice(), clock)
    one = ask("x" * 100_000)
    first = chosen(policy, workers, one)
    assert one.ticket is not None
    one.ticket.end(clock.now + 100)
    one.ticket.first_event(clock.now + 100)
    one.ticket.end(clock.now + 100)
    assert chosen(policy, workers, ask("x" * 100_000)) is first


def test_prompts_placed_by_others_are_in_the_queue_and_in_the_index() -> None:
    policy, workers = least_ttft(dice(), Clock()), fleet(2)
    text = "x" * 4000
    one = ask(text)
    policy.placed(workers[1], one)
    assert one.ticket is not None
    assert chosen(policy, workers, ask("y" * 4000)) is workers[0]
    one.ticket.end(1000.0)
    assert chosen(policy, workers, ask(text)) is workers[1]


def test_without_a_text_any_worker_will_do() -> None:
    policy, workers = least_ttft(dice(), Clock()), fleet(3)
    assert {chosen(policy, workers, ask()) for _ in range(50)} == set(workers)


def test_a_worker_that_is_gone_is_forgotten() -> None:
    policy, workers = least_ttft(dice(), Clock()), fleet(2)
    one = ask("x" * 4000)
    home = chosen(policy, workers, one)
    policy.forget(home)
    assert one.ticket is not None
    one.ticket.first_event(2000.0)
    one.ticket.end(2000.0)
    assert {chosen(policy, workers, ask("x" * 4000)) for _ in range(2)} == set(workers)
