"""The last exchanges that failed, for people who look at the console: a short list, never a log."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

MOST = 200
"""How many are kept."""
_MOST_CHARACTERS = 128


class Failure(NamedTuple):
    """`at` in seconds since the epoch; `code` is the gateway's, empty when a worker's error was relayed."""

    at: float
    path: str
    status: int
    code: str
    model: str
    worker: str
    request_id: str


class Failures:
    """Told only of what failed."""

    __slots__ = ("_last", "total")

    def __init__(self) -> None:
        self._last: deque[Failure] = deque(maxlen=MOST)
        self.total = 0

    def add(self, path: str, status: int, code: str, model: str, worker: str, request_id: str) -> None:
        """Names that clients chose are cut to a length."""
        self.total += 1
        shown = model[:_MOST_CHARACTERS], worker, request_id[:_MOST_CHARACTERS]
        self._last.append(Failure(time.time(), path, status, code, *shown))

    def latest(self) -> list[Failure]:
        """The newest first."""
        return list(reversed(self._last))
