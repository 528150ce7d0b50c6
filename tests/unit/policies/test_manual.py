"""Keys that keep their worker: the pins against a plain model, the modes, and sticky sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.policies.ask import Ask
from smg.policies.manual import Manual, Pins, Sticky
from smg.policies.round_robin import RoundRobin
from smg.workers.worker import Worker
from tests.clock import Clock
from tests.unit.policies.fleet import ask, dice, fleet, keyed

IDLE_S = 100.0
WORKERS = fleet(4)
steps = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "end"]),
        st.sampled_from([b"a", b"b", b"c"]),
        st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
        st.sampled_from([0.0, 1.0, 60.0, 150.0]),
    ),
    max_size=50,
)


class Model:
    """What the pins should know, written down without bounds or order."""

    def __init__(self) -> None:
        self.workers: dict[bytes, list[Worker]] = {}
        self.used_at: dict[bytes, float] = {}
        self.open: list[tuple[bytes, Ask]] = []

    def place(self, key: bytes, candidates: Sequence[Worker], now: float) -> Worker:
        is_open = any(one == key for one, _ in self.open)
        if not is_open and now - self.used_at.get(key, now) > IDLE_S:
            self.workers.pop(key, None)
        known = self.workers.get(key, [])
        worker = next((w for w in known if w in candidates), candidates[0])
        self.workers[key] = [worker, *(w for w in known if w is not worker)][:2]
        self.used_at[key] = now
        return worker


@given(steps)
def test_pins_are_a_dict_that_forgets(taken: list[tuple[str, bytes, list[int], float]]) -> None:
    clock, model = Clock(), Model()
    pins = Pins(IDLE_S, clock)
    homes: dict[bytes, Worker] = {}
    for what, key, numbers, passed in taken:
        clock.now += passed
        if what == "place":
            candidates = [WORKERS[n] for n in numbers]
            one = ask()
            worker = pins.place(key, candidates, one, lambda among, _: among[0])
            assert worker is model.place(key, candidates, clock.now)
            assert worker is not None
            if not any(name == key for name, _ in model.open):
                homes[key] = worker
            model.open.append((key, one))
        elif model.open:
            key, one = model.open.pop(0)
            assert one.ticket is not None
            one.ticket.end(clock.now)
        at_work = {key for key, _ in model.open}
        assert pins.groups == Counter(homes[key] for key in at_work)
        assert len(pins) <= 3


def test_pins_are_bounded() -> None:
    pins = Pins(IDLE_S, Clock(), limit=10)
    for number in range(50):
        pins.place(b"%d" % number, WORKERS[number % 4 :], ask(), lambda among, _: among[0])
    assert len(pins) == 10
    assert pins.place(b"49", WORKERS, ask(), lambda *_: None) is WORKERS[1]
    assert pins.place(b"0", WORKERS, ask(), lambda *_: None) is None


def test_keys_that_were_evicted_at_work_are_counted_off() -> None:
    pins = Pins(IDLE_S, Clock(), limit=1)
    asks = [ask() for _ in range(3)]
    for number, one in enumerate(asks):
        pins.place(b"%d" % number, WORKERS, one, lambda among, _: among[0])
    for one in asks:
        assert one.ticket is not None
        one.ticket.end(0.0)
    assert pins.groups == {}


def test_idle_keys_are_let_go_by_others() -> None:
    clock = Clock()
    pins = Pins(IDLE_S, clock)
    for key in (b"a", b"b", b"c"):
        one = ask()
        pins.place(key, WORKERS, one, lambda among, _: among[0])
        assert one.ticket is not None
        one.ticket.end(clock.now)
    clock.now += IDLE_S + 1
    pins.place(b"d", WORKERS, ask(), lambda among, _: among[0])
    assert len(pins) == 1


def manual(mode: str) -> Manual:
    return Manual(mode, Pins(IDLE_S, Clock()), dice())


@pytest.mark.parametrize("mode", ["random", "min_load", "min_group", "delegate"])
def test_a_key_stays_while_its_worker_is_there_and_comes_back(mode: str) -> None:
    policy, workers = manual(mode), fleet(3)
    home = policy.choose(workers[:2], keyed(b"k"))
    assert home is not None
    home.load = 100
    assert all(policy.choose(workers, keyed(b"k")) is home for _ in range(10))
    others = tuple(worker for worker in workers if worker is not home)
    second = policy.choose(others, keyed(b"k"))
    assert policy.choose(workers, keyed(b"k")) is second
    left = tuple(worker for worker in workers if worker is not second)
    assert policy.choose(left, keyed(b"k")) is home


@pytest.mark.parametrize("mode", ["min_load", "delegate"])
def test_new_keys_go_to_the_least_loaded(mode: str) -> None:
    workers = fleet(3, loads=[2, 0, 1])
    assert manual(mode).choose(workers, keyed(b"k")) is workers[1]


def test_new_keys_go_where_the_fewest_are_at_work() -> None:
    policy, workers = manual("min_group"), fleet(3)
    counts = Counter(policy.choose(workers, keyed(b"%d" % number)) for number in range(9))
    assert set(counts.values()) == {3}
    for worker in workers:
        policy.choose((worker,), keyed(b"of %d" % worker.target.port))
    counts = Counter(policy.choose(workers, keyed(b"more %d" % number)) for number in range(3))
    assert set(counts.values()) == {1}


def test_without_a_key_any_worker() -> None:
    policy, workers = manual("min_load"), fleet(3, loads=[9, 0, 9])
    assert {policy.choose(workers, ask()) for _ in range(60)} == set(workers)


class Keeper(RoundRobin):
    """A policy that wants to know what others place."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Worker] = []
        self.gone: list[Worker] = []

    def placed(self, worker: Worker, one: Ask) -> None:
        self.told.append(worker)

    def forget(self, worker: Worker) -> None:
        self.gone.append(worker)


def test_sticky_sessions() -> None:
    below, workers = Keeper(), fleet(3)
    policy = Sticky(below, Pins(IDLE_S, Clock()), lambda one: one.key)
    assert policy.choose(workers, keyed(b"a")) is workers[0]
    assert below.told == []
    assert policy.choose(workers, keyed(b"a")) is workers[0]
    assert below.told == [workers[0]]
    assert [policy.choose(workers, ask()) for _ in range(2)] == [workers[1], workers[2]]
    assert policy.choose(workers, keyed(b"b")) is workers[0]
    policy.forget(workers[1])
    assert below.gone == [workers[1]]


class Watcher:
    """A ticket that notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def first_event(self, now: float) -> None:
        self.heard.append("first")

    def end(self, now: float) -> None:
        self.heard.append("end")


def test_tickets_of_the_policy_beneath_are_told() -> None:
    watcher, one = Watcher(), ask()

    def choose(among: Sequence[Worker], asked: Ask) -> Worker:
        asked.ticket = watcher
        return among[0]

    Pins(IDLE_S, Clock()).place(b"k", WORKERS, one, choose)
    assert one.ticket is not None
    one.ticket.first_event(1.0)
    one.ticket.end(2.0)
    assert watcher.heard == ["first", "end"]
