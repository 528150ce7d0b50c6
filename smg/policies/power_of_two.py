"""Two workers at random, of which the lighter one."""

from __future__ import annotations

import random
from collections.abc import Sequence

from smg.policies.ask import Ask
from smg.policies.load import Score
from smg.workers.worker import Worker


class PowerOfTwo:
    """Nearly as even as looking at all workers, without the herd that all run to the lightest one."""

    reads_body = False
    __slots__ = ("_random", "_score")

    def __init__(self, score: Score, rng: random.Random) -> None:
        self._score = score
        self._random = rng

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        if len(candidates) == 1:
            return candidates[0]
        one, other = self._random.sample(candidates, 2)
        return other if self._score(other) < self._score(one) else one
