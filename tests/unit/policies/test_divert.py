"""A new worker gets some of the prompts that others hold, until it has a cache of its own."""

from __future__ import annotations

from collections import Counter

from smg.policies.ask import Ask
from smg.policies.cache_aware import CacheAware, Spill
from smg.policies.divert import Divert
from smg.policies.prefix_index import PrefixIndex
from smg.workers.worker import Worker
from tests.unit.policies.fleet import ask, dice, worker
from tests.unit.workers.test_warmup import Fleet

HEAD = "what everybody begins with " * 20


class Case:
    """A cache_aware policy over two old workers of which one holds `HEAD`."""

    def __init__(self, every: int = 8, blocks: int = 1000, thin_ratio: float = 0.5) -> None:
        self.fleet = Fleet(blocks=blocks)
        self.policy = CacheAware(PrefixIndex(1 << 20), 0.3, Spill(64, 1.5), dice())
        self.divert = Divert(self.fleet.warmup, every, thin_ratio, blocks, self.fleet.clock)
        self.policy.divert = self.divert
        self.home = self.send(HEAD)

    def send(self, text: str, end: bool = True) -> Worker:
        request = self.last = ask(text)
        chosen = self.policy.choose(self.fleet.all, request)
        assert chosen is not None
        if end:
            self.end(request)
        return chosen

    def end(self, request: Ask) -> None:
        if request.ticket is not None:
            request.ticket.end(0.0)

    def hits(self, count: int, text: str = HEAD, end: bool = True) -> Counter[Worker]:
        return Counter(self.send(text, end) for _ in range(count))


def test_without_a_new_worker_nothing_is_diverted() -> None:
    case = Case()
    assert case.hits(100) == {case.home: 100}


def test_one_hit_in_eight_goes_to_the_new_worker() -> None:
    case = Case()
    new = case.fleet.add(worker(9))
    case.home.load = 1  # else the new one, once it holds the prompt, would be chosen as its lighter holder
    new.load = 2
    assert case.hits(80) == {case.home: 70, new: 10}


def test_one_at_a_time() -> None:
    case = Case()
    new = case.fleet.add(worker(9))
    new.load = 1
    assert case.hits(80, end=False)[new] == 1


def test_nothing_is_diverted_when_turned_off() -> None:
    case = Case(every=0)
    new = case.fleet.add(worker(9))
    new.load = 1
    assert case.hits(100)[new] == 0


def test_deep_hits_are_spared_for_a_while() -> None:
    case = Case(every=4)
    deep = HEAD * 20
    case.send(deep)
    case.hits(20)
    new = case.fleet.add(worker(9))
    new.load = 5
    assert case.hits(4, deep)[new] == 0
    assert case.hits(1, HEAD)[new] == 1


def test_a_worker_that_was_sent_little_is_filled_up() -> None:
    """It is no new one, but all the prompts have their holders elsewhere."""
    case = Case(blocks=20)
    poor, rich = case.fleet.add(worker(9)), case.fleet.old
    case.fleet.clock.now += 100
    for number in range(60):
        for one in rich:
            case.policy.choose((one,), ask(f"{number}{one.url}" * 20))
    case.fleet.clock.now += 2
    case.send(HEAD)  # the workers are compared
    assert not case.fleet.warmup.cold
    poor.load = 1
    got = case.hits(60)[poor]
    assert 0 < got < 12
    for number in range(20):
        case.policy.choose((poor,), ask(f"{number} of its own " * 40))
    case.fleet.clock.now += 2
    case.send(HEAD)
    assert case.hits(60)[poor] == 0  # it has grown by its blocks


def test_a_worker_that_is_gone_is_forgotten() -> None:
    case = Case()
    case.policy.forget(case.home)
    assert case.send("x" * 100) in case.fleet.all
    assert case.divert._sent.keys() <= set(case.fleet.all)
