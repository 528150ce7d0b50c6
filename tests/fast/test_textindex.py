"""The text index against a model of the same blocks, and its bounds."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smg._fast.index import MAX_WORKERS
from smg._fast.textblocks import block_ends
from smg._fast.textindex import TextIndex
from tests.fast.reference.prefixes import PrefixModel

WORKERS = (0, 1, 2, 63, 64, 200)
FLOOR_BYTES = 1 << 18


def whole(text: bytes) -> array[int]:
    return array("q", [0, len(text)])


def cut(text: bytes) -> list[bytes]:
    ends = block_ends(len(text))
    return [text[start:end] for start, end in pairwise([0, *ends])]


def insert(index: TextIndex, text: bytes, worker: int) -> int:
    return index.insert(text, whole(text), worker)


def best(index: TextIndex, text: bytes) -> tuple[int, tuple[int, ...]]:
    return index.best(text, whole(text))


def check_bounds(index: TextIndex) -> None:
    assert index.size <= index.max_bytes
    assert index.blocks <= index.max_blocks
    assert index.bytes <= 12 * index.max_bytes // 16 + FLOOR_BYTES


def length(blocks: Sequence[bytes]) -> int:
    return sum(map(len, blocks))


class Histories(RuleBasedStateMachine):
    """Random texts from a few stems, so that they share, diverge, end inside each other and grow."""

    max_bytes = 2000
    swept_by_insert = 256

    def __init__(self) -> None:
        super().__init__()
        self.index = TextIndex(self.max_bytes, self.swept_by_insert)
        self.model: PrefixModel[bytes] = PrefixModel()
        self.texts: list[bytes] = [b""]

    text_parts = st.tuples(st.integers(0, 10**6), st.integers(0, 400), st.integers(0, 2), st.integers(0, 150))

    def text(self, parts: tuple[int, int, int, int]) -> bytes:
        """The beginning of an earlier text, and something after it."""
        which, keep, first, more = parts
        made = self.texts[which % len(self.texts)][:keep] + (b"%dxxx" % first * 40)[:more]
        self.texts.append(made)
        return made

    @rule(parts=text_parts, worker=st.sampled_from(WORKERS))
    def insert(self, parts: tuple[int, int, int, int], worker: int) -> None:
        text = self.text(parts)
        blocks = cut(text)
        known = self.model.longest(blocks)
        before = self.index.size
        assert insert(self.index, text, worker) == length(blocks[:known])
        self.model.insert(blocks, worker)
        kept = [one for one in self.model.holders if best(self.index, b"".join(one))[0] == length(one)]
        if self.model.keep_only(kept):
            is_crowded = self.index.blocks + len(blocks) - known >= self.index.max_blocks
            assert before + length(blocks[known:]) > self.index.max_bytes or is_crowded

    @rule(parts=text_parts)
    def look_up(self, parts: tuple[int, int, int, int]) -> None:
        text = self.text(parts)
        blocks = cut(text)
        longest, holders = self.model.best(blocks)
        assert best(self.index, text) == (length(blocks[:longest]), holders)

    @rule(worker=st.sampled_from(WORKERS))
    def remove_worker(self, worker: int) -> None:
        self.index.remove_worker(worker)
        self.model.remove_worker(worker)

    @precondition(lambda self: self.index.sweeping)
    @rule(count=st.sampled_from((1, 2, 5, 1000)))
    def sweep(self, count: int) -> None:
        assert self.index.sweep(count) is not self.index.sweeping

    @rule(clear=st.integers(0, 9))
    def clear(self, clear: int) -> None:
        if clear == 0:
            self.index.clear()
            self.model = PrefixModel()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        check_bounds(self.index)
        blocks, size = len(self.model.holders), sum(len(prefix[-1]) for prefix in self.model.holders)
        if self.index.sweeping:
            assert self.index.blocks >= blocks and self.index.size >= size
        else:
            assert (self.index.blocks, self.index.size) == (blocks, size)
        for prefix, held in self.model.holders.items():
            assert best(self.index, b"".join(prefix)) == (length(prefix), tuple(sorted(held)))


class SlowlySwept(Histories):
    """What removed workers held is still there at many inserts."""

    swept_by_insert = 1


class NeverSwept(Histories):
    """Until its slot is used again."""

    swept_by_insert = 0


class NeverFull(Histories):
    """Nothing is evicted: what is dropped was held by removed workers."""

    max_bytes = 100_000
    swept_by_insert = 3


TestHistories = Histories.TestCase
TestSlowlySwept = SlowlySwept.TestCase
TestNeverSwept = NeverSwept.TestCase
TestNeverFull = NeverFull.TestCase
for case in (TestHistories, TestSlowlySwept, TestNeverSwept, TestNeverFull):
    case.settings = settings(max_examples=60, stateful_step_count=40)


@given(
    pieces=st.lists(st.binary(max_size=200), max_size=12),
    between=st.lists(st.binary(max_size=20), min_size=12, max_size=12),
)
@settings(max_examples=200)
def test_spans_are_read_as_one_text(pieces: list[bytes], between: list[bytes]) -> None:
    text = b"".join(pieces)
    body, spans = b"", array("q")
    for piece, gap in zip(pieces, between, strict=False):
        body += gap
        spans.extend([len(body), len(body) + len(piece)])
        body += piece
    index = TextIndex(100_000)
    assert index.insert(body, spans, 5) == 0
    assert best(index, text) == (len(text), (5,) if text else ())
    assert index.best(body, spans.tobytes()) == best(index, text)
    assert index.insert(text, whole(text), 6) == len(text)
    assert index.best(body, spans) == (len(text), (5, 6) if text else ())


def test_blocks_grow_with_depth() -> None:
    assert block_ends(0) == []
    assert block_ends(5) == [5]
    assert block_ends(70) == [32, 64, 70]
    assert block_ends(192) == [32, 64, 128, 192]
    ends = block_ends(1_000_000)
    assert ends[-1] == 1_000_000
    assert len(ends) < 2000
    assert all(end - start <= max(start // 16, 64) for start, end in pairwise(ends))


@pytest.mark.parametrize("size", [1, 15, 16, 64, 500, 16_384, 20_000, 262_144, 400_000])
def test_a_change_is_seen_where_it_is(size: int) -> None:
    text = random.Random(size).randbytes(size)
    index = TextIndex(1_000_000)
    insert(index, text, 1)
    assert best(index, text) == (size, (1,))
    ends = [0, *block_ends(size)]
    for at in {0, size // 2, size - 1}:
        changed = text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]
        assert best(index, changed)[0] == max(end for end in ends if end <= at)


def test_a_text_that_goes_on_keeps_its_whole_blocks() -> None:
    index = TextIndex(100_000)
    insert(index, b"a" * 200, 1)
    assert best(index, b"a" * 300) == (192, (1,))
    assert best(index, b"a" * 199) == (192, (1,))


def test_prefixes_are_stored_once_for_all_workers() -> None:
    index = TextIndex(2_000_000)
    shared = random.Random(1).randbytes(6400)
    for worker in range(MAX_WORKERS):
        insert(index, shared + b"%16d" % worker, worker)
    assert index.size == 6400 + 16 * MAX_WORKERS
    assert best(index, shared) == (6400, tuple(range(MAX_WORKERS)))


def test_what_is_longer_than_the_index_is_cut() -> None:
    index = TextIndex(10_000)
    text = random.Random(2).randbytes(50_000)
    insert(index, text, 1)
    check_bounds(index)
    assert best(index, text)[0] > 9_000


def test_one_text_pushes_out_only_so_much() -> None:
    source = random.Random(6)
    index = TextIndex(1_000_000)
    for _ in range(4000):
        insert(index, source.randbytes(250), 1)
    before = index.size
    large = source.randbytes(900_000)
    insert(index, large, 2)
    known = best(index, large)[0]
    assert 4096 * 40 < known < 4096 * 64
    assert index.size > before - 1024
    # Used again, it goes on where it was cut.
    assert insert(index, large, 2) == known
    assert best(index, large)[0] > known


def test_a_flood_of_large_texts_leaves_what_is_used_again() -> None:
    source = random.Random(3)
    index = TextIndex(4_000_000)
    hot = [source.randbytes(4000) for _ in range(100)]
    for text in hot * 2:
        insert(index, text, 1)
    taken = []
    for _ in range(40):
        insert(index, source.randbytes(1_000_000), 2)
        check_bounds(index)
        taken.append(index.bytes)
    assert len(set(taken[10:])) == 1
    assert [best(index, text) for text in hot] == [(4000, (1,))] * 100


@pytest.mark.parametrize("size", [20, 300, 4000])
def test_memory_is_bounded_whatever_is_inserted(size: int) -> None:
    source = random.Random(size)
    index = TextIndex(300_000)
    stems = [source.randbytes(size) for _ in range(5)]
    for number in range(3000):
        stem = source.choice(stems)[: source.randrange(size + 1)]
        insert(index, stem + source.randbytes(source.randrange(1, size + 1)), number % 9)
        check_bounds(index)


def test_removing_a_worker_frees_its_share() -> None:
    source = random.Random(4)
    index = TextIndex(1_000_000)
    shared = source.randbytes(640)
    for worker in range(10):
        insert(index, shared + source.randbytes(6400), worker)
    index.remove_worker(4)
    assert best(index, shared) == (640, (0, 1, 2, 3, 5, 6, 7, 8, 9))
    assert index.sweep(10**9)
    assert index.size == 640 + 9 * 6400
    for worker in range(10):
        index.remove_worker(worker)
    assert (index.size, index.blocks) == (0, 0)


def test_what_a_removed_worker_held_goes_as_others_insert() -> None:
    source = random.Random(4)
    index = TextIndex(1_000_000)
    held = [source.randbytes(6400) for _ in range(60)]
    for number, text in enumerate(held):
        insert(index, text, 1 + number % 2)
    blocks = index.blocks
    index.remove_worker(1)
    assert index.sweeping and index.size == 60 * 6400
    assert [best(index, text)[0] for text in held] == [0, 6400] * 30
    inserts = 0
    while index.sweeping:
        insert(index, source.randbytes(10), 3)
        inserts += 1
    assert inserts <= blocks // 256 + 2
    assert index.size == 30 * 6400 + inserts * 10


def test_a_slot_that_is_used_again_at_once_holds_nothing_of_before() -> None:
    index = TextIndex(100_000)
    old, new, other = (random.Random(size).randbytes(size) for size in (5000, 50, 70))
    insert(index, old, 1)
    insert(index, other, 2)
    index.remove_worker(1)
    assert best(index, old) == (0, ())
    insert(index, new, 1)
    assert not index.sweeping
    assert best(index, old) == (0, ())
    assert index.size == 120


def test_more_sets_than_there_is_room_for_become_everybody() -> None:
    source = random.Random(5)
    index = TextIndex(1_000_000)
    held: dict[bytes, list[int]] = {}
    for number in range(3000):
        text = b"%d %d of the texts" % (number % 7, number)
        held[text] = source.sample(range(MAX_WORKERS), 3)
        for worker in held[text]:
            insert(index, text, worker)
        check_bounds(index)
    for text, workers in held.items():
        known, found = best(index, text)
        assert known == len(text)
        assert set(workers) <= set(found)
    for worker in range(MAX_WORKERS):
        index.remove_worker(worker)
    assert index.blocks == 0


@pytest.mark.parametrize("spans", [[-1, 2], [0, 6], [3, 2], [0]])
def test_spans_must_lie_in_the_body(spans: list[int]) -> None:
    index = TextIndex(1000)
    with pytest.raises(ValueError, match="span"):
        index.insert(b"hello", array("q", spans), 1)
    with pytest.raises(ValueError, match="span"):
        index.best(b"hello", array("q", spans))


def test_bad_arguments() -> None:
    index = TextIndex(1000)
    with pytest.raises(ValueError, match="64-bit"):
        index.insert(b"hello", array("i", [0, 5]), 1)
    with pytest.raises(TypeError):
        index.insert("hello", whole(b"hello"), 1)  # type: ignore[arg-type]
    for worker in (-1, MAX_WORKERS):
        with pytest.raises(ValueError, match="no such slot"):
            index.insert(b"hello", whole(b"hello"), worker)
        with pytest.raises(ValueError, match="no such slot"):
            index.remove_worker(worker)
    with pytest.raises(ValueError, match="at least one"):
        TextIndex(0)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3000), st.integers(0, 5)), max_size=30))
def test_an_insert_after_best_is_like_any_other(steps: list[tuple[int, int, int]]) -> None:
    """`best` keeps the keys it has read: also when others, equal ones or removals come between."""
    kept, plain = TextIndex(60_000, 2), TextIndex(60_000, 2)
    for stem, length, worker in steps:
        body, spans = bytes([97 + stem]) * length, whole(b"x" * length).tobytes()
        expected = plain.best(bytearray(body), spans)
        assert kept.best(body, spans) == expected
        if worker == 3:
            continue
        if worker > 3:
            for index in (kept, plain):
                index.remove_worker(worker - 4)
            worker = 1
        assert kept.insert(body, spans, worker) == plain.insert(bytearray(body), spans, worker)
        assert (kept.size, kept.blocks) == (plain.size, plain.blocks)


def test_a_text_of_more_blocks_than_are_kept() -> None:
    index, text = TextIndex(10_000_000), random.Random(3).randbytes(3_000_000)
    spans = whole(text).tobytes()
    for worker, known in ((0, 0), (1, len(text))):
        assert index.best(text, spans)[0] == known
        assert index.insert(text, spans, worker) == known
    assert index.best(text, spans) == (len(text), (0, 1))
