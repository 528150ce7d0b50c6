"""The worker that holds the longest prefix of the prompt, unless it is crowded; else the least loaded."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Protocol

from smg.policies.ask import Ask
from smg.policies.load import in_flight, lightest
from smg.policies.prefix_index import Prompt, prompt_of
from smg.workers.worker import Worker

_LEAST_MARGIN = 4.0
_DEVIATIONS = 2.0


class Index(Protocol):
    """What is known of the workers' caches; sizes in bytes of text."""

    def best(self, prompt: Prompt) -> tuple[int, list[Worker]]: ...

    def insert(self, prompt: Prompt, worker: Worker) -> None: ...

    def forget(self, worker: Worker) -> None: ...


class Spill:
    """When affinity yields to load: a worker's requests are above the mean by both thresholds.

    The absolute margin is at most two standard deviations of the requests in flight that chance makes at
    that mean (and at least 4), or a wide margin would let one worker drown in a small fleet. The usage
    thresholds look at the reported KV caches; 1.0 is off.
    """

    __slots__ = ("_abs", "_overload_usage", "_rel", "_usage_spread")

    def __init__(
        self,
        abs_threshold: float,
        rel_threshold: float,
        usage_spread: float = 1.0,
        overload_usage: float = 1.0,
    ) -> None:
        self._abs = abs_threshold
        self._rel = rel_threshold
        self._usage_spread = usage_spread
        self._overload_usage = overload_usage

    def is_past(self, worker: Worker, candidates: Sequence[Worker]) -> bool:
        mean = sum(w.load for w in candidates) / len(candidates)
        chance = max(_DEVIATIONS * math.sqrt(mean), _LEAST_MARGIN)
        if worker.load > mean + min(self._abs, chance) and worker.load > mean * self._rel:
            return True
        return self._usage_is_uneven(candidates)

    def _usage_is_uneven(self, candidates: Sequence[Worker]) -> bool:
        if self._usage_spread >= 1.0 and self._overload_usage >= 1.0:
            return False
        usage = [w.report.token_usage for w in candidates if w.report is not None]
        if not usage:
            return False
        return max(usage) - min(usage) > self._usage_spread or max(usage) > self._overload_usage


class CacheAware:
    """`threshold`: the share of a prompt that must be held for affinity to count."""

    reads_body = True

    def __init__(self, index: Index, threshold: float, spill: Spill, rng: random.Random) -> None:
        self.index = index
        self._threshold = threshold
        self._spill = spill
        self._random = rng

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        prompt = prompt_of(ask)
        if prompt is None:
            return lightest(candidates, in_flight, self._random)
        matched, holders = self.index.best(prompt)
        worker = None
        if matched > self._threshold * prompt.size:
            holders = [w for w in holders if w in candidates]
            if holders:
                worker = lightest(holders, in_flight, self._random)
                if self._spill.is_past(worker, candidates):
                    worker = None
        if worker is None:
            worker = lightest(candidates, in_flight, self._random)
        self.index.insert(prompt, worker)
        return worker

    def placed(self, worker: Worker, ask: Ask) -> None:
        """Somebody else has chosen the worker."""
        prompt = prompt_of(ask)
        if prompt is not None:
            self.index.insert(prompt, worker)

    def forget(self, worker: Worker) -> None:
        self.index.forget(worker)
