"""Data-parallel ranks (`--dp-aware`): an engine that runs k of them is k workers at one address."""

from __future__ import annotations

from collections.abc import Iterable

from smg.workers.worker import Rank, Worker

MAX_RANKS = 1024


def size_of(worker: Worker) -> int:
    """How many ranks an engine says it has, by its label `dp_size`."""
    text = worker.labels.get("dp_size", "")
    told = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1
    return min(max(told, 1), MAX_RANKS)


def rank_of(worker: Worker, size: int) -> Rank | None:
    """The rank a worker is among `size`; None for the only worker of its address."""
    if worker.rank is not None:
        return Rank(worker.rank.number, size)
    return Rank(0, size) if size > 1 else None


def missing(worker: Worker, size: int, there: Iterable[Worker]) -> list[int]:
    """The ranks that have to be added next to rank 0, when an engine is found or has come back with more
    of them. One that was removed on purpose is not added again while their number stays."""
    former = worker.rank.size if worker.rank is not None else 1
    if worker.rank is not None and worker.rank.number > 0:
        return []
    known = {one.rank.number for one in there if one.rank is not None}
    return [number for number in range(former, size) if number not in known]
