"""The token tree against a model that remembers every prefix, and its bounds."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smg._fast.index import MAX_WORKERS
from smg._fast.radix import TokenTree
from tests.fast.reference.prefixes import PrefixModel

PAGE = 64
WORKERS = (0, 1, 2, 5, 63, 64, 200)
Prefix = tuple[int, ...]
# What the tables of a tree of any size may take.
FLOOR_BYTES = 1 << 18


def ids(tokens: Iterable[int]) -> array[int]:
    return array("I", tokens)


def depth(tree: TokenTree, tokens: Sequence[int], worker: int) -> int:
    """How many of these tokens the worker holds."""
    for end in range(len(tokens), 0, -1):
        known, holders = tree.best(ids(tokens[:end]))
        if known == end and worker in holders:
            return end
    return 0


def check(tree: TokenTree) -> None:
    """The bounds, and the order that evictions rely on."""
    listed = tree.dump()
    nodes = {number: (set(holders), kept) for number, _, _, holders, kept in listed}
    position = {node[0]: at for at, node in enumerate(listed)}
    assert len(nodes) == len(listed) == tree.nodes <= tree.max_nodes
    assert sum(len(node[2]) for node in listed) == tree.tokens <= tree.max_tokens
    assert tree.bytes <= 6 * tree.max_tokens + FLOOR_BYTES
    for number, parent, tokens, holders, kept in listed:
        assert 0 < len(tokens) <= PAGE
        assert holders or tree.sweeping
        if parent:
            # What is evicted first is a leaf, and who holds a node holds all above it.
            assert position[number] < position[parent]
            assert nodes[parent][1] or not kept
            assert nodes[parent][0].issuperset(holders)


def stored(tree: TokenTree) -> dict[Prefix, tuple[int, ...]]:
    """Every stored prefix with its holders."""
    check(tree)
    found: dict[Prefix, tuple[int, ...]] = {}
    whole: dict[int, Prefix] = {0: ()}
    for number, parent, tokens, holders, _ in reversed(tree.dump()):
        above = whole[parent]
        whole[number] = above + tokens
        if not holders:
            continue
        for end in range(1, len(tokens) + 1):
            assert above + tokens[:end] not in found
            found[above + tokens[:end]] = holders
    return found


class Histories(RuleBasedStateMachine):
    """Random prompts from a few stems, so that they share, diverge, end inside each other and grow."""

    max_tokens = 700
    swept_by_insert = 256

    def __init__(self) -> None:
        super().__init__()
        self.tree = TokenTree(self.max_tokens, self.swept_by_insert)
        self.model: PrefixModel[int] = PrefixModel()
        self.prompts: list[list[int]] = [[]]

    prompt_parts = st.tuples(
        st.integers(0, 10**6),
        st.integers(0, 150),
        st.integers(0, 2),
        st.sampled_from((0, 1, 3, 40, 64, 65, 130)),
    )

    def prompt(self, parts: tuple[int, int, int, int]) -> list[int]:
        """The beginning of an earlier prompt, and something after it."""
        which, keep, first, more = parts
        earlier = self.prompts[which % len(self.prompts)]
        made = earlier[:keep] + [first] * min(more, 1) + [first % 2] * max(more - 1, 0)
        self.prompts.append(made)
        return made

    @rule(parts=prompt_parts, worker=st.sampled_from(WORKERS))
    def insert(self, parts: tuple[int, int, int, int], worker: int) -> None:
        prompt = self.prompt(parts)
        before = self.tree.tokens
        new = len(prompt) - self.model.longest(prompt)
        assert self.tree.insert(ids(prompt), worker) == self.model.insert(prompt, worker)
        found = stored(self.tree)
        is_crowded = self.tree.nodes + new // PAGE + 2 >= self.tree.max_nodes
        if self.model.keep_only(found):
            assert before + new > self.max_tokens or is_crowded
        if is_crowded:
            # No node was left for a split: the worker may hold less than was said.
            for prefix, holders in found.items():
                assert set(holders) <= self.model.holders[prefix]
                self.model.holders[prefix] = set(holders)

    @rule(parts=prompt_parts)
    def look_up(self, parts: tuple[int, int, int, int]) -> None:
        prompt = self.prompt(parts)
        assert self.tree.best(ids(prompt)) == self.model.best(prompt)

    @rule(worker=st.sampled_from(WORKERS))
    def remove_worker(self, worker: int) -> None:
        self.tree.remove_worker(worker)
        self.model.remove_worker(worker)

    @precondition(lambda self: self.tree.sweeping)
    @rule(count=st.sampled_from((1, 2, 5, 1000)))
    def sweep(self, count: int) -> None:
        assert self.tree.sweep(count) is not self.tree.sweeping

    @precondition(lambda self: len(self.prompts) > 20)
    @rule()
    def clear(self) -> None:
        self.tree.clear()
        self.model = PrefixModel()
        self.prompts = [[]]

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert stored(self.tree) == {key: tuple(sorted(held)) for key, held in self.model.holders.items()}


class SlowlySwept(Histories):
    """What removed workers held is still there at many inserts."""

    swept_by_insert = 1


class NeverSwept(Histories):
    """Until its slot is used again."""

    swept_by_insert = 0


TestHistories = Histories.TestCase
TestSlowlySwept = SlowlySwept.TestCase
TestNeverSwept = NeverSwept.TestCase
for case in (TestHistories, TestSlowlySwept, TestNeverSwept):
    case.settings = settings(max_examples=60, stateful_step_count=40)


def random_ids(source: random.Random, size: int) -> array[int]:
    return array("I", source.randbytes(4 * size))


def test_hints_need_no_least_length() -> None:
    tree = TokenTree(100)
    assert tree.insert(ids([7]), 3) == 0
    assert tree.best(ids([7, 8])) == (1, (3,))
    assert tree.best(ids([8])) == (0, ())
    assert tree.best(ids([])) == (0, ())


def test_a_prefix_is_stored_once_for_all_workers() -> None:
    tree = TokenTree(1_000_000)
    shared = list(range(1000))
    for worker in range(MAX_WORKERS):
        tree.insert(ids([*shared, 5000 + worker]), worker)
    assert tree.tokens == 1000 + MAX_WORKERS
    assert tree.best(ids(shared)) == (1000, tuple(range(MAX_WORKERS)))
    assert tree.best(ids([*shared, 5007])) == (1001, (7,))


def test_a_conversation_fills_its_pages() -> None:
    tree = TokenTree(100_000)
    prompt: list[int] = []
    for turn in range(1000):
        prompt += [turn] * 10
        tree.insert(ids(prompt), 1)
    assert tree.tokens == 10_000
    assert tree.nodes == -(-10_000 // PAGE)


def test_pieces_grow_together_when_their_siblings_are_gone() -> None:
    tree = TokenTree(100_000)
    for end in range(1, 60):
        tree.insert(ids([*range(end), 1000]), 2)
    tree.insert(ids(range(60)), 1)
    assert tree.nodes > 100
    tree.remove_worker(2)
    tree.insert(ids(range(60)), 1)
    assert (tree.tokens, tree.nodes) == (60, 1)


def test_many_siblings_are_all_found() -> None:
    tree = TokenTree(1_000_000)
    prompts = [ids([first, second]) for first in (1, 2) for second in range(9000)]
    for number, prompt in enumerate(prompts):
        tree.insert(prompt, number % 3)
    assert [tree.best(prompt) for prompt in prompts] == [(2, (n % 3,)) for n in range(len(prompts))]
    tree.remove_worker(1)
    left = [1 if number % 3 == 1 else 2 for number in range(len(prompts))]
    assert [tree.best(prompt)[0] for prompt in prompts] == left


def test_what_is_longer_than_the_tree_is_cut() -> None:
    tree = TokenTree(1000)
    assert tree.insert(ids(range(5000)), 1) == 0
    assert tree.best(ids(range(5000))) == (1000, (1,))
    assert tree.insert(ids(range(5000)), 1) == 1000


def test_the_oldest_of_what_was_used_once_goes_first() -> None:
    tree = TokenTree(6400)
    prompts = [ids([number] * 64) for number in range(150)]
    for prompt in prompts:
        tree.insert(prompt, 1)
    assert [tree.best(prompt)[0] for prompt in prompts] == [0] * 50 + [64] * 100


def test_one_prompt_pushes_out_only_so_much() -> None:
    source = random.Random(5)
    tree = TokenTree(1_000_000)
    for _ in range(50_000):
        tree.insert(random_ids(source, 50), 1)
    large = random_ids(source, 900_000)
    tree.insert(large, 2)
    known = tree.best(large)[0]
    assert 8192 * 50 <= known < 8192 * 64
    assert tree.insert(large, 2) == known
    assert tree.best(large)[0] > known


def test_a_flood_leaves_what_is_used_again() -> None:
    source = random.Random(1)
    tree = TokenTree(200_000)
    hot = [random_ids(source, 1000) for _ in range(100)]
    for prompt in hot * 2:
        tree.insert(prompt, 1)
    for _ in range(20):
        tree.insert(random_ids(source, 100_000), 2)
        assert tree.tokens <= 200_000
        assert tree.bytes <= 6 * 200_000 + FLOOR_BYTES
    assert [tree.best(prompt) for prompt in hot] == [(1000, (1,))] * 100


def test_what_was_used_again_makes_way_in_the_end() -> None:
    source = random.Random(2)
    tree = TokenTree(100_000)
    old = random_ids(source, 1000)
    for _ in range(5):
        tree.insert(old, 1)
    for _ in range(200):
        prompt = random_ids(source, 1000)
        tree.insert(prompt, 1)
        tree.insert(prompt, 1)
        assert tree.best(prompt) == (1000, (1,))
    assert tree.best(old)[0] < 1000


def test_looking_up_is_no_use() -> None:
    tree = TokenTree(640)
    prompts = [ids([number] * 64) for number in range(11)]
    for prompt in prompts[:10]:
        tree.insert(prompt, 1)
    for _ in range(5):
        tree.best(prompts[0])
    tree.insert(prompts[10], 1)
    assert tree.best(prompts[0])[0] == 0


@pytest.mark.parametrize("size", [1, 40, 64, 500, 3000])
def test_memory_is_bounded_whatever_is_inserted(size: int) -> None:
    source = random.Random(size)
    tree = TokenTree(200_000)
    stems = [random_ids(source, size) for _ in range(5)]
    for number in range(min(1_000_000 // size, 10_000)):
        stem = source.choice(stems)[: source.randrange(size + 1)]
        tree.insert(stem + random_ids(source, source.randrange(1, size + 1)), number % 9)
        assert tree.tokens <= 200_000
        assert tree.nodes <= tree.max_nodes
        assert tree.bytes <= 6 * 200_000 + FLOOR_BYTES
    check(tree)


def test_more_sets_than_there_is_room_for_become_everybody() -> None:
    source = random.Random(3)
    tree = TokenTree(1_000_000)
    holders: dict[int, list[int]] = {}
    for number in range(2500):
        holders[number] = source.sample(range(MAX_WORKERS), 3)
        for at, worker in enumerate(holders[number]):
            tree.insert(ids([number % 7, number, *range(20 - at)]), worker)
        assert tree.bytes <= 6 * 1_000_000 + FLOOR_BYTES
    check(tree)
    for number, workers in holders.items():
        prompt = [number % 7, number, *range(20)]
        assert [depth(tree, prompt, worker) >= 22 - at for at, worker in enumerate(workers)] == [True] * 3
    for worker in range(MAX_WORKERS - 1):
        tree.remove_worker(worker)
        if worker % 1000 == 0:
            check(tree)
    tree.remove_worker(MAX_WORKERS - 1)
    assert (tree.tokens, tree.nodes, tree.dump()) == (0, 0, [])


def test_removing_a_worker_frees_its_share() -> None:
    source = random.Random(4)
    tree = TokenTree(100_000)
    shared = random_ids(source, 500)
    for worker in range(10):
        tree.insert(shared + random_ids(source, 1000), worker)
    tree.remove_worker(4)
    assert tree.best(shared) == (500, (0, 1, 2, 3, 5, 6, 7, 8, 9))
    assert tree.sweep(10**9)
    assert tree.tokens == 500 + 9 * 1000
    for worker in range(10):
        tree.remove_worker(worker)
    assert (tree.tokens, tree.nodes) == (0, 0)
    tree.insert(shared, 4)
    assert tree.best(shared) == (500, (4,))


def test_what_a_removed_worker_held_goes_as_others_insert() -> None:
    source = random.Random(4)
    tree = TokenTree(100_000)
    for worker in (1, 2):
        tree.insert(random_ids(source, 40_000), worker)
    tree.remove_worker(1)
    assert tree.sweeping
    assert tree.tokens == 80_000
    inserts = 0
    while tree.sweeping:
        tree.insert(random_ids(source, 10), 3)
        inserts += 1
    assert inserts <= 80_000 // PAGE // 256 + 2
    assert tree.tokens == 40_000 + inserts * 10
    check(tree)


def test_a_slot_that_is_used_again_at_once_holds_nothing_of_before() -> None:
    source = random.Random(4)
    tree = TokenTree(100_000)
    old, new, other = (random_ids(source, size) for size in (5000, 50, 70))
    tree.insert(old, 1)
    tree.insert(other, 2)
    tree.remove_worker(1)
    assert tree.best(old) == (0, ())
    tree.insert(new, 1)
    assert not tree.sweeping
    assert tree.best(old) == (0, ())
    assert tree.tokens == 120


def test_workers_that_go_together() -> None:
    """Sets that become equal, and empty, in the midst of a sweep."""
    source = random.Random(4)
    tree = TokenTree(100_000, 0)
    shared = random_ids(source, 300)
    for worker in range(60):
        tree.insert(shared[: 5 * worker + 5] + random_ids(source, 20), worker)
    for worker in range(0, 60, 2):
        tree.remove_worker(worker)
        tree.sweep(worker % 7)
        check(tree)
    assert tree.best(shared) == (300, (59,))
    found = [depth(tree, shared, worker) for worker in range(60)]
    assert found == [0 if worker % 2 == 0 else 5 * worker + 5 for worker in range(60)]
    for worker in range(1, 59, 2):
        tree.remove_worker(worker)
    assert tree.sweep(10**9)
    check(tree)
    assert tree.tokens == 320


@pytest.mark.parametrize("tokens", [array("q", [1]), b"1234", array("d", [1.0])])
def test_tokens_have_32_bits(tokens: array[int] | bytes) -> None:
    tree = TokenTree(100)
    with pytest.raises(ValueError, match="32-bit"):
        tree.insert(tokens, 1)
    with pytest.raises(ValueError, match="32-bit"):
        tree.best(tokens)


def test_bad_arguments() -> None:
    tree = TokenTree(100)
    for worker in (-1, MAX_WORKERS):
        with pytest.raises(ValueError, match="no such slot"):
            tree.insert(ids([1]), worker)
        with pytest.raises(ValueError, match="no such slot"):
            tree.remove_worker(worker)
    with pytest.raises(TypeError):
        tree.best([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        TokenTree(0)
