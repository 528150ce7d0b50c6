"""Token heads of fixed lengths, remembered for a time."""

from smg.policies.placement import PlacementIndex
from smg.policies.prefix_index import Prompt, prompt_of
from tests.clock import Clock
from tests.unit.policies.fleet import ask, fleet, hinted


def prompt(*tokens: int) -> Prompt:
    found = prompt_of(hinted(tokens))
    assert found is not None
    return found


def make(clock: Clock) -> PlacementIndex:
    return PlacementIndex([4, 2], 180, clock)


def test_the_deepest_known_head_decides() -> None:
    index, workers = make(Clock()), fleet(2)
    index.insert(prompt(1, 2, 3, 4, 5), workers[0])
    index.insert(prompt(1, 2, 9), workers[1])
    assert index.best(prompt(1, 2, 3, 4, 6)) == (20, [workers[0]])
    assert index.best(prompt(1, 2, 3)) == (12, [workers[0], workers[1]])
    assert index.best(prompt(1)) == (0, [])
    assert index.best(prompt(2, 1, 3, 4)) == (0, [])


def test_heads_are_forgotten_in_time() -> None:
    clock, workers = Clock(), fleet(1)
    index = make(clock)
    index.insert(prompt(1, 2), workers[0])
    clock.now += 179
    assert index.best(prompt(1, 2))[1] == [workers[0]]
    clock.now += 1
    assert index.best(prompt(1, 2)) == (0, [])
    index.insert(prompt(3, 4), workers[0])
    clock.now -= 100
    assert index.best(prompt(1, 2)) == (0, [])


def test_a_worker_that_is_gone_is_forgotten() -> None:
    index, workers = make(Clock()), fleet(2)
    for worker in workers:
        index.insert(prompt(1, 2), worker)
    index.forget(workers[0])
    assert index.best(prompt(1, 2)) == (8, [workers[1]])
    index.forget(workers[1])
    assert index.best(prompt(1, 2)) == (0, [])


def test_text_matches_nothing() -> None:
    index, workers = make(Clock()), fleet(1)
    text = prompt_of(ask("a text"))
    assert text is not None
    index.insert(text, workers[0])
    assert index.best(text) == (0, [])
