"""The worker that holds the longest prefix of the prompt, unless it is crowded; else the least loaded."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Protocol

from smg.policies.ask import Ask
from smg.policies.divert import Divert
from smg.policies.load import in_flight, lightest
from smg.policies.prefix_index import Prompt, prompt_of
from smg.policies.spread import Spread
from smg.workers.worker import Worker

_LEAST_MARGIN = 4.0
_DEVIATIONS = 2.0
_FEW = 4
"""From so many holders on it is worth while to make a set of the candidates."""

MATCH = ("cache_aware", "tree_match")
SPILL = ("cache_aware", "spill")
NO_MATCH = ("cache_aware", "expected_wait_fallback")
NO_PROMPT = ("cache_aware", "no_prompt")


class Index(Protocol):
    """What is known of the workers' caches; sizes in bytes of text.

    Events of the engines' own caches (over ZMQ or gRPC) would come in here as well, worker by worker: a block
    that was stored is an `insert` of the prompt up to its end, a cleared cache is `forget`. These indexes
    keep no account of what is evicted; `Caches` of caches.py does, and takes such events by its `drop`.
    """

    def best(self, prompt: Prompt) -> tuple[int, list[Worker]]:
        """The longest known prefix, and who holds all of it."""

    def insert(self, prompt: Prompt, worker: Worker) -> None:
        """The worker holds this prompt, or will: it was sent there."""

    def forget(self, worker: Worker) -> None:
        """The worker holds nothing any more, or is gone."""


class Spill:
    """When affinity yields to load: a worker's requests are above the mean by both thresholds.

    The absolute margin is at most two standard deviations of the requests in flight that chance makes at
    that mean (and at least 4), or a wide margin would let one worker drown in a small fleet. The usage
    thresholds look at the reported KV caches; 1.0 is off.
    """

    __slots__ = ("_abs", "_least", "_overload_usage", "_rel", "_usage_spread", "_watches_usage")

    def __init__(
        self,
        abs_threshold: float,
        rel_threshold: float,
        usage_spread: float = 1.0,
        overload_usage: float = 1.0,
    ) -> None:
        self._abs = abs_threshold
        # No worker with fewer requests is past, whatever the mean.
        self._least = min(abs_threshold, _LEAST_MARGIN)
        self._rel = rel_threshold
        self._usage_spread = usage_spread
        self._overload_usage = overload_usage
        self._watches_usage = usage_spread < 1.0 or overload_usage < 1.0

    def is_past(self, worker: Worker, candidates: Sequence[Worker]) -> bool:
        if worker.load <= self._least:
            return self._watches_usage and self._usage_is_uneven(candidates)
        mean = sum([w.load for w in candidates]) / len(candidates)
        chance = max(_DEVIATIONS * math.sqrt(mean), _LEAST_MARGIN)
        if worker.load > mean + min(self._abs, chance) and worker.load > mean * self._rel:
            return True
        return self._watches_usage and self._usage_is_uneven(candidates)

    def _usage_is_uneven(self, candidates: Sequence[Worker]) -> bool:
        usage = [w.report.token_usage for w in candidates if w.report is not None]
        if not usage:
            return False
        return max(usage) - min(usage) > self._usage_spread or max(usage) > self._overload_usage


class CacheAware:
    """`threshold`: the share of a prompt that must be held for affinity to count. `divert` sees to it that
    new workers get prompts too."""

    reads_body = True
    divert: Divert | None = None

    def __init__(self, index: Index, threshold: float, spill: Spill, rng: random.Random) -> None:
        self.index = index
        self._threshold = threshold
        self._spill = spill
        self._random = rng
        self._spread = Spread(rng)

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        prompt = prompt_of(ask)
        if prompt is None:
            ask.branch = NO_PROMPT
            return lightest(candidates, in_flight, self._random)
        matched, holders = self.index.best(prompt)
        worker = self._holder(matched, holders, prompt, candidates, ask)
        if worker is None:
            free = self.divert.admit(candidates) if self.divert is not None else candidates
            worker = self._spread.choose(free, holders)
        held = matched if worker in holders else 0
        self._spread.note(worker, prompt.size - held)
        if self.divert is not None:
            self.divert.sent(worker, max(prompt.size - held, 0), candidates)
        self.index.insert(prompt, worker)
        ask.prompt_bytes, ask.matched_bytes, ask.held_bytes = prompt.size, matched, held
        return worker

    def _holder(
        self, matched: int, holders: list[Worker], prompt: Prompt, candidates: Sequence[Worker], ask: Ask
    ) -> Worker | None:
        """Who holds enough of the prompt and has room, or a new worker in its place; None: nobody."""
        ask.branch = NO_MATCH
        if matched <= self._threshold * prompt.size:
            return None
        if len(holders) == 1:
            worker = holders[0]
            if worker not in candidates:
                return None
        else:
            allowed = candidates if len(holders) < _FEW else set(candidates)
            holders = [w for w in holders if w in allowed]
            if not holders:
                return None
            worker = lightest(holders, in_flight, self._random)
        if self._spill.is_past(worker, candidates):
            ask.branch = SPILL
            return None
        ask.branch = MATCH
        return (self.divert.instead(matched, candidates, ask) if self.divert is not None else None) or worker

    def placed(self, worker: Worker, ask: Ask) -> None:
        """Somebody else has chosen the worker."""
        prompt = prompt_of(ask)
        if prompt is not None:
            self.index.insert(prompt, worker)

    def forget(self, worker: Worker) -> None:
        self.index.forget(worker)
        self._spread.forget(worker)
        if self.divert is not None:
            self.divert.forget(worker)
