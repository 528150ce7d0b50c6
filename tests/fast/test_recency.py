"""What was given to whom, and when, against a plain model; and the bounds of the table."""

from __future__ import annotations

import random
from array import array
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from smg._fast.recency import MOST_BYTES, Path, Recency
from smg._fast.textblocks import block_ends

WORKERS = (0, 1, 7, 2**32 - 1)
FLOORS = array("q", [1 << 40, 1000, 100, 10, 1, 0, -5])


def path(table: Recency, text: bytes) -> Path:
    return table.path(text, array("q", [0, len(text)]))


def ends(size: int) -> list[int]:
    """The ends of blocks that are kept of a text of that size."""

    def is_kept(end: int) -> bool:
        apart = 128 if end <= 16384 else 512 if end <= 262144 else 4096
        return end <= 4096 or end % apart == 0 or end == size

    return [end for end in block_ends(size) if is_kept(end)]


def profile(table: Recency, text: bytes, worker: int) -> list[int]:
    missing = array("i", bytes(4 * len(FLOORS)))
    table.profile(path(table, text), worker, FLOORS, missing)
    return list(missing)


class Histories(RuleBasedStateMachine):
    """Texts from a few stems, so that they share, diverge and grow; stamps that rise."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Recency(1 << 16)
        self.model: dict[tuple[int, bytes], int] = {}
        self.stamps = dict.fromkeys(WORKERS, 0)

    texts = st.builds(
        lambda stem, length, tail: (stem * 3000)[:length] + tail,
        st.sampled_from([b"a", b"bc", b"a" * 100 + b"b"]),
        st.integers(0, 2500),
        st.binary(max_size=100),
    )

    @rule(text=texts, worker=st.sampled_from(WORKERS), passed=st.integers(0, 5000))
    def use(self, text: bytes, worker: int, passed: int) -> None:
        self.stamps[worker] += passed
        self.table.use(path(self.table, text), worker, self.stamps[worker])
        for end in ends(len(text)):
            self.model[worker, text[:end]] = self.stamps[worker]

    @rule(text=texts, worker=st.sampled_from(WORKERS), kept=st.integers(0, 2600))
    def drop(self, text: bytes, worker: int, kept: int) -> None:
        self.table.drop(path(self.table, text), worker, kept)
        for end in ends(len(text)):
            if end > kept:
                self.model.pop((worker, text[:end]), None)

    @rule(text=texts, worker=st.sampled_from(WORKERS), floor=st.integers(-10, 6000))
    def look(self, text: bytes, worker: int, floor: int) -> None:
        held = 0
        for end in ends(len(text)):
            if self.model.get((worker, text[:end]), -(1 << 60)) < floor:
                break
            held = end
        found = self.table.held(path(self.table, text), worker, floor)
        # A block that was dropped beneath others leaves those standing: how much is held is then anything
        # that ends where a block does, but never what nobody has said.
        if self._is_whole(text, worker):
            assert found == held
        else:
            assert found in (0, *ends(len(text)))

    @rule(text=texts, worker=st.sampled_from(WORKERS))
    def profiles_are_what_is_not_held(self, text: bytes, worker: int) -> None:
        whole = path(self.table, text)
        if self._is_whole(text, worker):
            expected = [len(text) - self.table.held(whole, worker, floor) for floor in FLOORS]
            assert profile(self.table, text, worker) == expected

    def _is_whole(self, text: bytes, worker: int) -> bool:
        """Whether the stamps never rise along the text, as long as nothing was dropped in its middle."""
        stamps = [self.model.get((worker, text[:end]), -(1 << 60)) for end in ends(len(text))]
        return stamps == sorted(stamps, reverse=True)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=30)


@settings(max_examples=60)
@given(st.binary(max_size=700), st.data())
def test_spans_are_one_text(text: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    body, spans, start = b"", array("q"), 0
    for cut in (*cuts, len(text)):
        body += b'", "'
        spans.extend((len(body), len(body) + cut - start))
        body += text[start:cut]
        start = cut
    table = Recency(100)
    table.use(path(table, text), 3, 5)
    read = table.path(body, spans)
    assert (read.size, read.count) == (len(text), len(ends(len(text))))
    assert table.held(read, 3, 5) == len(text)
    assert table.held(read, 3, 6) == table.held(read, 4, 5) == 0


def test_nothing_is_lost_while_there_is_room() -> None:
    table, chance = Recency(60_000), random.Random(5)
    texts = [chance.randbytes(3000) for _ in range(1000)]
    for stamp, text in enumerate(texts):
        table.use(path(table, text), stamp % 5, stamp)
    assert table.count == 1000 * len(ends(3000))
    assert all(table.held(path(table, text), i % 5, i) == 3000 for i, text in enumerate(texts))


def test_a_flood_of_new_texts_stays_within_the_bounds_and_leaves_what_is_used_again() -> None:
    table, chance = Recency(2000), random.Random(6)
    mine = chance.randbytes(4000)
    for stamp in range(2000):
        table.use(path(table, mine), 1, stamp)
        table.use(path(table, chance.randbytes(6000)), 2, stamp)
        assert table.count <= table.limit == 2000
        assert table.bytes <= 40 * 2000 + (1 << 16)
    assert table.held(path(table, mine), 1, 0) == 4000


def test_a_text_longer_than_the_table() -> None:
    table = Recency(100)
    table.use(path(table, b"x" * 100_000), 0, 1)
    assert table.count == 100
    assert 0 < table.held(path(table, b"x" * 100_000), 0, 1) < 100_000


@pytest.mark.parametrize("size", [0, 1, 64, 4096, 4097, 16_384, 16_500, 262_144, 300_001])
def test_ends_lie_close_enough(size: int) -> None:
    found = path(Recency(100), b"x" * size).ends
    assert found == ends(size)
    assert all(b - a <= max(64, b / 16) for a, b in pairwise([0, *found]))


def test_the_longest_text() -> None:
    table = Recency(100)
    assert path(table, b"x" * (MOST_BYTES + 5)).size == MOST_BYTES


def test_arguments_that_do_not_fit() -> None:
    table = Recency(1)
    with pytest.raises(ValueError, match="span outside"):
        table.path(b"abc", array("q", [0, 4]))
    with pytest.raises(ValueError, match="as many 32-bit"):
        table.profile(path(table, b"abc"), 0, FLOORS, array("i", [0]))
    with pytest.raises(OverflowError):
        table.held(path(table, b"abc"), 2**32, 0)
    assert table.held(Path(), 0, 0) == 0
