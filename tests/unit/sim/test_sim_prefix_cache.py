"""The simulated engine's prefix cache."""

from __future__ import annotations

from smg.sim.prefix_cache import BLOCK_BYTES, BLOCK_TOKENS, PrefixCache, block_hashes, count_tokens


def spell(*letters: str) -> bytes:
    """A text of one block per letter."""
    return b"".join(letter.encode() * BLOCK_BYTES for letter in letters)


def test_tokens_are_four_bytes() -> None:
    assert [count_tokens(b"x" * size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_hashes_cover_all_before() -> None:
    assert block_hashes(spell("a", "b"))[0] == block_hashes(spell("a", "c"))[0]
    assert block_hashes(spell("a", "b"))[1] != block_hashes(spell("c", "b"))[1]
    assert len(block_hashes(spell("a", "b")[:-1])) == 1


def test_longest_prefix() -> None:
    cache = PrefixCache(1000)
    assert cache.match(spell("a", "b", "c")) == 0
    cache.insert(spell("a", "b", "c"))
    assert cache.match(spell("a", "b", "d")) == 2 * BLOCK_TOKENS
    assert cache.match(spell("b", "c")) == 0
    assert cache.match(spell("a", "b", "c")) == 2 * BLOCK_TOKENS  # the last token is computed anyway
    assert cache.match(spell("a", "b", "c") + b"x") == 3 * BLOCK_TOKENS
    assert cache.hit_tokens == 7 * BLOCK_TOKENS


def test_drops_the_least_recent_and_ends_first() -> None:
    cache = PrefixCache(3 * BLOCK_TOKENS + 5)
    cache.insert(spell("a", "b"))
    cache.insert(spell("c", "d"))
    assert cache.held_tokens == 3 * BLOCK_TOKENS
    assert cache.match(spell("a", "b") + b"x") == BLOCK_TOKENS
    assert cache.match(spell("c", "d") + b"x") == 2 * BLOCK_TOKENS
    cache.insert(spell("e", "f", "g", "h"))
    assert cache.match(spell("e", "f", "g", "h")) == 3 * BLOCK_TOKENS
    cache.clear()
    assert cache.held_tokens == 0


def test_without_capacity_nothing_is_held() -> None:
    cache = PrefixCache(BLOCK_TOKENS - 1)
    cache.insert(spell("a"))
    assert cache.match(spell("a", "b")) == 0
