"""What the workers' prefix caches are believed to hold: what was sent there, less what they have evicted.

How much a cache holds is learnt, not configured. For every prompt it is noted what would be missing of it if
caches reached back over this or that many bytes of new text; the reach with which the times to first token
are explained best is believed, for all workers of a model together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from smg._fast.recency import Path, Recency
from smg.policies.prefill import Prefill
from smg.policies.prefix_index import Prompt
from smg.workers.worker import Worker

_ENDLESS = 1 << 62
REACHES = array("q", [int(2 ** (14 + step / 2)) for step in range(40)] + [_ENDLESS])
"""Bytes of new text after which a prefix is gone: 16 KiB to 12 GiB, half an octave apart, or never."""
NEVER_GONE = len(REACHES) - 1
_TOLERANCE = 1.02
"""Reaches that explain the times about as well are equal: the longest of them is believed."""
_LEARN_EVERY = 8
TOKENS_PER_ENTRY = 16
_TOKEN_BYTES = 4


class _Place:
    """A worker's number in the table, never used again, and the bytes of new text it was given."""

    __slots__ = ("given", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.given = 0


class Caches:
    """`max_tokens` bounds the table: at most 40 bytes for 16 tokens at a worker."""

    def __init__(self, max_tokens: int) -> None:
        self._table = Recency(max(max_tokens // TOKENS_PER_ENTRY, 1))
        self._places: dict[Worker, _Place] = {}
        self._next_number = 0
        self._answers = 0
        self.believed = NEVER_GONE

    @property
    def candidates(self) -> int:
        """How many reaches are compared."""
        return len(REACHES)

    def path(self, prompt: Prompt) -> Path:
        """The prompt's blocks, for the other methods."""
        if prompt.tokens is not None:
            size = len(prompt.tokens) * _TOKEN_BYTES
            return self._table.path(prompt.tokens, array("q", [0, size]))
        return self._table.path(prompt.body, prompt.spans or b"")

    def held(self, path: Path, worker: Worker) -> int:
        """Bytes of the prompt's text, from its beginning, that the worker is believed to hold."""
        place = self._places.get(worker)
        if place is None:
            return 0
        return self._table.held(path, place.number, place.given - REACHES[self.believed])

    def missing(self, path: Path | None, worker: Worker) -> array[int]:
        """Bytes that the worker does not hold, by each reach."""
        missing = array("i", bytes(4 * len(REACHES)))
        if path is not None:
            place = self._place(worker)
            floors = array("q", [place.given - reach for reach in REACHES])
            self._table.profile(path, place.number, floors, missing)
        return missing

    def use(self, path: Path, worker: Worker, missing: int) -> None:
        """The worker was given the prompt, of which so many bytes were new to it."""
        place = self._place(worker)
        place.given += missing
        self._table.use(path, place.number, place.given)

    def drop(self, path: Path, worker: Worker, kept: int) -> None:
        """The worker holds no more than `kept` bytes of the prompt.

        For events of its engine's cache: a block was dropped. One that was stored is a `use` of the prompt up
        to the block's end that misses nothing.
        """
        place = self._places.get(worker)
        if place is not None:
            self._table.drop(path, place.number, kept)

    def forget(self, worker: Worker) -> None:
        """The worker is gone; one that comes back under its name begins with nothing."""
        self._places.pop(worker, None)

    def learn(self, prefills: Iterable[Prefill]) -> None:
        """A prompt was answered: believe what explains best how long the workers take."""
        self._answers += 1
        if self._answers % _LEARN_EVERY:
            return
        everybody = list(prefills)
        unexplained = array("d", bytes(8 * len(REACHES)))
        for prefill in everybody:
            prefill.costs.add_unexplained(unexplained)
        bound = min(unexplained) * _TOLERANCE + 1e-12
        believed = max(i for i, left in enumerate(unexplained) if left <= bound)
        if believed != self.believed:
            self.believed = believed
            for prefill in everybody:
                prefill.believe(believed)

    def _place(self, worker: Worker) -> _Place:
        place = self._places.get(worker)
        if place is None:
            place = self._places[worker] = _Place(self._next_number)
            self._next_number = (self._next_number + 1) & 0xFFFFFFFF
        return place
