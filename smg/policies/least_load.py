"""The lightest of all workers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from smg.policies.ask import Ask
from smg.policies.load import Score, lightest
from smg.workers.worker import Worker


class LeastLoad:
    """`max_waiting`: a worker with so many waiting requests, reported or sent since, is left out;
    0: none is."""

    reads_body = False
    __slots__ = ("_max_waiting", "_random", "_score")

    def __init__(self, score: Score, max_waiting: int, rng: random.Random) -> None:
        self._score = score
        self._max_waiting = max_waiting
        self._random = rng

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        if self._max_waiting:
            candidates = [w for w in candidates if self._waiting(w) < self._max_waiting]
            if not candidates:
                return None
        return lightest(candidates, self._score, self._random)

    def _waiting(self, worker: Worker) -> int:
        report = worker.report
        return (report.waiting_requests if report is not None else 0) + worker.sent_since_report
