"""Prompts with the same head go to the same worker, by a hash ring, as long as it is not crowded."""

from __future__ import annotations

import random
from collections.abc import Sequence

from smg._fast.prefix import text_hash, token_hash
from smg._fast.ring import place_of
from smg.policies.ask import Ask
from smg.policies.consistent_hashing import WorkerRing
from smg.policies.load import in_flight, lightest
from smg.policies.prefix_index import TEXT_BYTES_PER_TOKEN, prompt_of
from smg.workers.worker import Worker

RING_HIT = ("prefix_hash", "ring_hit")
CROWDED = ("prefix_hash", "fallback_least_load")
NO_KEY = ("prefix_hash", "no_routing_key")


class PrefixHash:
    """`count`: tokens of the head, or four times as many characters; with `boundaries` the deepest one that
    the prompt reaches. The ring's worker must not be above the mean load by both bounds."""

    # It looks at the head only; a body that is passed on unread goes by load.
    reads_body = False

    def __init__(
        self,
        count: int,
        boundaries: Sequence[int],
        load_factor: float,
        balance_abs: int,
        rng: random.Random,
    ) -> None:
        self._ring = WorkerRing()
        self._count = count
        self._boundaries = sorted(boundaries, reverse=True)
        self._load_factor = load_factor
        self._balance_abs = balance_abs
        self._random = rng

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        place = self._place(ask)
        if place is None:
            ask.branch = NO_KEY
            return lightest(candidates, in_flight, self._random)
        ask.branch = RING_HIT
        worker = self._ring.pick(place, candidates)
        most = self._most(candidates)
        if worker is None or worker.load <= most:
            return worker
        ask.branch = CROWDED
        free = [w for w in candidates if w.load <= most]
        return lightest(free or candidates, in_flight, self._random)

    def forget(self, worker: Worker) -> None:
        self._ring.forget(worker)

    def _place(self, ask: Ask) -> int | None:
        if ask.key is not None:
            return place_of(ask.key)
        prompt = prompt_of(ask)
        if prompt is None:
            return None
        size = prompt.size // TEXT_BYTES_PER_TOKEN
        count = next((b for b in self._boundaries if size >= b), self._count)
        if prompt.tokens is not None:
            hashed = token_hash(prompt.tokens, count)
        else:
            hashed = text_hash(prompt.body, prompt.spans or b"", count * TEXT_BYTES_PER_TOKEN)
        return place_of(b"%016x" % hashed)

    def _most(self, candidates: Sequence[Worker]) -> float:
        """The load above which a worker is crowded."""
        mean = sum(w.load for w in candidates) / len(candidates)
        return max(mean * self._load_factor, mean + self._balance_abs)
