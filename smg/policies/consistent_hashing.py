"""The same key, the same worker, by a hash ring: adding a worker moves only its share of the keys."""

from __future__ import annotations

import random
from collections.abc import Sequence

from smg._fast.ring import MAX_WORKERS, Ring, place_of
from smg.policies.ask import Ask
from smg.workers.worker import Worker

TARGET_HIT = ("consistent_hashing", "target_worker_hit")
TARGET_MISS = ("consistent_hashing", "target_worker_miss")
KEY_HIT = ("consistent_hashing", "routing_key_hit")
RANDOM = ("consistent_hashing", "random_fallback")


class WorkerRing:
    """The ring with workers in place of numbers; workers join as they are seen."""

    def __init__(self) -> None:
        self._ring = Ring()
        self._slots: dict[Worker, int] = {}
        self._workers: dict[int, Worker] = {}
        self._free = list(range(MAX_WORKERS - 1, -1, -1))

    def pick(self, place: int, candidates: Sequence[Worker]) -> Worker | None:
        """The first candidate clockwise from `place`."""
        allowed = bytearray(MAX_WORKERS)
        for worker in candidates:
            slot = self._slot(worker)
            if slot is not None:
                allowed[slot] = 1
        found = self._ring.pick(place, allowed)
        return self._workers[found] if found >= 0 else None

    def forget(self, worker: Worker) -> None:
        slot = self._slots.pop(worker, None)
        if slot is not None:
            del self._workers[slot]
            self._ring.remove(slot)
            self._free.append(slot)

    def _slot(self, worker: Worker) -> int | None:
        slot = self._slots.get(worker)
        if slot is None and self._free:
            slot = self._slots[worker] = self._free.pop()
            self._workers[slot] = worker
            self._ring.add(worker.url, slot)
        return slot


class ConsistentHashing:
    """A named worker, else the routing key, else the caller's address or cookie, else chance."""

    reads_body = False
    takes_pins = False

    def __init__(self, rng: random.Random) -> None:
        self._ring = WorkerRing()
        self._random = rng

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        if ask.target is not None:
            named = _named(ask.target, candidates)
            ask.branch = TARGET_HIT if named is not None else TARGET_MISS
            return named
        key = ask.key or ask.origin
        if key is None:
            ask.branch = RANDOM
            return self._random.choice(candidates)
        ask.branch = KEY_HIT
        return self._ring.pick(place_of(key), candidates)

    def forget(self, worker: Worker) -> None:
        self._ring.forget(worker)


def _named(target: bytes, candidates: Sequence[Worker]) -> Worker | None:
    """The worker at a 0-based index among the available ones; None when that is no index of one."""
    digits = target.removeprefix(b"+")
    if not digits.isdigit() or len(digits) > 9:
        return None
    index = int(digits)
    return candidates[index] if index < len(candidates) else None
