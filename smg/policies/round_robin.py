"""One worker after the other: n workers get equal shares."""

from __future__ import annotations

from collections.abc import Sequence

from smg.policies.ask import Ask
from smg.workers.worker import Worker


class RoundRobin:
    """A counter modulo the list, so that a list that changes its length needs no state of its own."""

    reads_body = False
    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        self._next += 1
        return candidates[(self._next - 1) % len(candidates)]
