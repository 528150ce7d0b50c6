"""What the prefix indexes must answer, by remembering every prefix of everything and forgetting nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item", int, bytes)


class PrefixModel(Generic[Item]):
    """Each stored prefix with the workers that hold it. Evictions come from outside, by `keep_only`.

    Items are tokens, or whole blocks of a text.
    """

    def __init__(self) -> None:
        self.holders: dict[tuple[Item, ...], set[int]] = {}

    def insert(self, items: Sequence[Item], worker: int) -> int:
        known = self.longest(items)
        for end in range(1, len(items) + 1):
            self.holders.setdefault(tuple(items[:end]), set()).add(worker)
        return known

    def longest(self, items: Sequence[Item]) -> int:
        ends = [end for end in range(1, len(items) + 1) if tuple(items[:end]) in self.holders]
        return max(ends, default=0)

    def best(self, items: Sequence[Item]) -> tuple[int, tuple[int, ...]]:
        longest = self.longest(items)
        return longest, tuple(sorted(self.holders[tuple(items[:longest])])) if longest else ()

    def remove_worker(self, worker: int) -> None:
        for holders in self.holders.values():
            holders.discard(worker)
        self.keep_only([prefix for prefix, holders in self.holders.items() if holders])

    def keep_only(self, prefixes: Iterable[tuple[Item, ...]]) -> set[tuple[Item, ...]]:
        """Forget all others, which are returned."""
        kept = set(prefixes)
        gone = self.holders.keys() - kept
        self.holders = {prefix: held for prefix, held in self.holders.items() if prefix in kept}
        return gone
