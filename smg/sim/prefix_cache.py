"""An LRU cache of prompt prefixes in blocks, as engines keep for their key-value cache.

A "token" is four bytes of the prompt; a block is 16 tokens. A block's hash covers all bytes before
it, so equal hashes mean equal prefixes.
"""

from __future__ import annotations

from collections import OrderedDict

import xxhash

TOKEN_BYTES = 4
BLOCK_TOKENS = 16
BLOCK_BYTES = TOKEN_BYTES * BLOCK_TOKENS


def count_tokens(data: bytes) -> int:
    return -(-len(data) // TOKEN_BYTES)


def block_hashes(data: bytes) -> list[int]:
    """One hash per full block of the text."""
    digest = xxhash.xxh3_64_intdigest
    parent = 0
    hashes = []
    for start in range(0, len(data) - BLOCK_BYTES + 1, BLOCK_BYTES):
        parent = digest(data[start : start + BLOCK_BYTES], parent)
        hashes.append(parent)
    return hashes


class PrefixCache:
    """Holds at most `capacity_tokens`, rounded down to blocks; zero holds nothing."""

    def __init__(self, capacity_tokens: int) -> None:
        self.capacity_blocks = capacity_tokens // BLOCK_TOKENS
        self.queried_tokens = 0
        self.hit_tokens = 0
        self._blocks: OrderedDict[int, None] = OrderedDict()

    @property
    def held_tokens(self) -> int:
        return len(self._blocks) * BLOCK_TOKENS

    def match(self, data: bytes) -> int:
        """Tokens of the longest held prefix. The last token is always computed, as in real engines."""
        tokens = count_tokens(data)
        self.queried_tokens += tokens
        if not self._blocks or tokens == 0:
            return 0
        held = 0
        for block in block_hashes(data)[: (tokens - 1) // BLOCK_TOKENS]:
            if block not in self._blocks:
                break
            held += 1
        self.hit_tokens += held * BLOCK_TOKENS
        return held * BLOCK_TOKENS

    def insert(self, data: bytes) -> None:
        """Hold the text's blocks. Ends of texts are dropped before their beginnings."""
        if not self.capacity_blocks:
            return
        blocks = self._blocks
        for block in reversed(block_hashes(data)[: self.capacity_blocks]):
            blocks[block] = None
            blocks.move_to_end(block)
        while len(blocks) > self.capacity_blocks:
            blocks.popitem(last=False)

    def clear(self) -> None:
        self._blocks.clear()
