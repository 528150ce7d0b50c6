"""Any worker, all equally likely."""

from __future__ import annotations

import random
from collections.abc import Sequence

from smg.policies.ask import Ask
from smg.workers.worker import Worker


class RandomChoice:
    """Not for secrets: the generator is the ordinary one, seeded by the operating system."""

    reads_body = False
    __slots__ = ("_random",)

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        return candidates[int(self._random.random() * len(candidates))]
