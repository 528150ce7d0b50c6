"""How loaded a worker is, by what it reports and by what was sent to it; lower is better."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from smg.workers.worker import Worker

Score = Callable[[Worker], float]


def in_flight(worker: Worker) -> float:
    return worker.load


class ExpectedWait:
    """`(queued + sent since the report) / throughput + weight * k / (1 - k)`: tokens over tokens a second,
    and the pressure on the KV cache, of which a share `k` is in use. Without a report: requests in flight.
    """

    def __init__(self, kv_weight: float, default_throughput: float, mean_prefill_tokens: int) -> None:
        self._kv_weight = kv_weight
        self._default_throughput = default_throughput
        self._mean_tokens = mean_prefill_tokens

    def __call__(self, worker: Worker) -> float:
        report = worker.report
        if report is None:
            return worker.load * self._mean_tokens / self._default_throughput
        queued = report.waiting_tokens
        if queued is None:
            queued = report.waiting_requests * self._mean_tokens
        sent = worker.sent_since_report * self._mean_tokens
        throughput = report.throughput if report.throughput > 0 else self._default_throughput
        k = min(report.token_usage, 0.999)
        return (queued + sent) / throughput + self._kv_weight * k / (1 - k)


def lightest(candidates: Sequence[Worker], score: Score, rng: random.Random) -> Worker:
    """The candidate with the lowest score; one of several equals at random."""
    best, found, equals = candidates[0], score(candidates[0]), 1
    for worker in candidates[1:]:
        its = score(worker)
        if its < found:
            best, found, equals = worker, its, 1
        elif its == found:
            equals += 1
            if rng.random() * equals < 1:
                best = worker
    return best
