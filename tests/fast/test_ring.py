"""The consistent-hash ring: against a sorted list, its shares, and what moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from smg._fast.ring import MAX_WORKERS, POINTS, Ring, place_of
from tests.fast.reference.ring import RingModel

KEYS = [place_of(b"key %d" % number) for number in range(20_000)]
LAST = 2**64 - 1


def url(worker: int) -> str:
    return f"http://10.0.0.{worker}:30000"


def ring_of(*workers: int) -> Ring:
    ring = Ring()
    for worker in workers:
        ring.add(url(worker), worker)
    return ring


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring()
        self.model = RingModel()

    # Two slots can have one URL: then the lower one is asked first.
    @rule(worker=st.integers(0, 7), name=st.integers(0, 9))
    def add(self, worker: int, name: int) -> None:
        self.ring.add(url(name), worker)
        self.model.urls[worker] = url(name)

    @rule(worker=st.integers(0, 7))
    def remove(self, worker: int) -> None:
        self.ring.remove(worker)
        self.model.urls.pop(worker, None)

    @rule(place=st.integers(0, LAST), allowed=st.none() | st.binary(max_size=9))
    def pick(self, place: int, allowed: bytes | None) -> None:
        slots = None if allowed is None else {slot for slot, flag in enumerate(allowed) if flag}
        assert self.ring.pick(place, allowed) == self.model.pick(place, slots)

    @invariant()
    def ends_meet(self) -> None:
        assert self.ring.pick(0) == self.model.pick(0)
        assert self.ring.pick(LAST) == self.model.pick(LAST)
        assert len(self.ring) == len(self.model.urls)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=30, stateful_step_count=20)


def test_every_worker_has_its_share() -> None:
    ring = ring_of(*range(10))
    shares = Counter(map(ring.pick, KEYS))
    assert sorted(shares) == list(range(10))
    assert max(shares.values()) < 1.5 * len(KEYS) / 10
    assert min(shares.values()) > 0.6 * len(KEYS) / 10


def test_a_worker_takes_only_its_share_and_gives_it_back() -> None:
    ring = ring_of(*range(9))
    before = [ring.pick(place) for place in KEYS]
    ring.add(url(9), 9)
    with_it = [ring.pick(place) for place in KEYS]
    moved = [now for was, now in zip(before, with_it, strict=True) if was != now]
    assert set(moved) == {9}
    assert len(moved) < 1.5 * len(KEYS) / 10
    ring.remove(9)
    assert [ring.pick(place) for place in KEYS] == before


def test_a_worker_that_is_away_leaves_the_others_their_keys() -> None:
    ring = ring_of(*range(5))
    allowed = bytearray([1, 1, 0, 1, 1])
    for place in KEYS[:2000]:
        with_all, without = ring.pick(place), ring.pick(place, allowed)
        assert without == with_all if with_all != 2 else without in (0, 1, 3, 4)


def test_the_order_of_arrival_does_not_matter() -> None:
    one, other = ring_of(3, 1, 2), ring_of(1, 2, 3)
    assert [one.pick(place) for place in KEYS] == [other.pick(place) for place in KEYS]


def test_nobody() -> None:
    assert Ring().pick(5) == -1
    ring = ring_of(0, 1)
    assert ring.pick(5, b"") == -1
    assert ring.pick(5, b"\0\0\1") == -1
    ring.remove(0)
    ring.remove(0)
    ring.remove(1)
    assert ring.pick(5) == -1
    assert 1 not in ring


def test_a_slot_can_change_its_url() -> None:
    ring = ring_of(1, 2)
    ring.add("http://elsewhere", 1)
    model = RingModel()
    model.urls = {1: "http://elsewhere", 2: url(2)}
    assert [ring.pick(place) for place in KEYS[:50]] == [model.pick(place) for place in KEYS[:50]]


def test_many_workers() -> None:
    ring = Ring()
    for worker in range(MAX_WORKERS):
        ring.add(f"http://worker-{worker}", worker)
    assert len(ring) == MAX_WORKERS
    assert len({ring.pick(place) for place in KEYS}) > MAX_WORKERS // 2
    assert ring.pick(KEYS[0], bytes(MAX_WORKERS - 1) + b"\1") == MAX_WORKERS - 1


def test_places_are_stable() -> None:
    assert POINTS == 150
    assert place_of(b"session-7") == 17401399686352168820


@pytest.mark.parametrize("worker", [-1, MAX_WORKERS])
def test_slots_are_few(worker: int) -> None:
    with pytest.raises(ValueError, match="no such slot"):
        Ring().add("http://a", worker)
