"""From a call to a worker, and from a failed attempt to the next one."""

from __future__ import annotations

import random
import time
from types import TracebackType

from smg import errors
from smg.api.call import Call
from smg.config.model import Retry as RetryOptions
from smg.policies.choose import Policy
from smg.workers.breaker import FAILURE_STATUSES
from smg.workers.registry import Registry
from smg.workers.worker import Worker

RETRYABLE = frozenset({408, 429, 502, 503, 504})
ELSEWHERE = frozenset({500})
"""Statuses that are tried again: on any worker, or only on one that was not tried."""


class Lease:
    """A worker chosen for one attempt, counted in its load until the attempt ends.

    `outcome`: True and False tell the breaker of success and failure, None tells it nothing. A request
    that fails again on a worker it has tried (`again`) is no further failure for the breaker.
    """

    __slots__ = ("again", "outcome", "worker")

    def __init__(self, worker: Worker, again: bool) -> None:
        self.worker = worker
        self.again = again
        self.outcome: bool | None = None

    def __enter__(self) -> Lease:
        self.worker.load += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker = self.worker
        worker.load -= 1
        if self.outcome is None or (self.again and not self.outcome):
            worker.breaker.release()
        else:
            worker.breaker.record(self.outcome, time.monotonic())

    def answered(self, status: int) -> None:
        self.outcome = status not in FAILURE_STATUSES


class Router:
    """Finds candidates, asks the policy, counts attempts."""

    def __init__(self, registry: Registry, policy: Policy, retry: RetryOptions) -> None:
        self._registry = registry
        self._policy = policy
        self._retry = retry
        self.attempts = 1 if retry.disable_retries else retry.retry_max_retries

    @property
    def reads_body(self) -> bool:
        return self._policy.reads_body

    @property
    def serves_one_model(self) -> bool:
        return len(self._registry.self_hosted_models) <= 1

    def lease(self, call: Call, tried: tuple[Worker, ...] = ()) -> Lease:
        """A worker that serves the call; untried ones first. Raises 404 and 503."""
        model = call.model
        entry = self._registry.any_entry() if model is None else self._registry.find(model)
        if entry is None:
            raise errors.model_not_found(model or "")
        if not entry.ready:
            raise errors.no_available_workers(model or "")
        now = time.monotonic()
        candidates = entry.ready
        if tried:
            candidates = tuple(w for w in candidates if w not in tried) or candidates
        worker = self._policy.choose(candidates, call)
        if worker is None or not worker.breaker.allows(now):
            worker = self._among_allowed(entry.ready, tried, call, now)
        if worker is None:
            raise errors.no_available_workers(model or "")
        return Lease(worker, worker in tried)

    def _among_allowed(
        self, ready: tuple[Worker, ...], tried: tuple[Worker, ...], call: Call, now: float
    ) -> Worker | None:
        allowed = tuple(w for w in ready if w.breaker.would_allow(now))
        candidates = tuple(w for w in allowed if w not in tried) or allowed
        worker = self._policy.choose(candidates, call) if candidates else None
        return worker if worker is not None and worker.breaker.allows(now) else None

    def has_untried(self, call: Call, tried: tuple[Worker, ...]) -> bool:
        entry = self._registry.any_entry() if call.model is None else self._registry.find(call.model)
        now = time.monotonic()
        return entry is not None and any(w not in tried and w.breaker.would_allow(now) for w in entry.ready)

    def may_retry(self, how: errors.Retry, call: Call, number: int, tried: tuple[Worker, ...]) -> bool:
        """Is attempt `number` (from 1), which failed in a way that allows `how`, followed by another?"""
        if how is errors.Retry.NO or number >= self.attempts or call.body is None:
            return False
        return how is errors.Retry.YES or self.has_untried(call, tried)

    def delay_s(self, number: int) -> float:
        """How long to wait after attempt `number`."""
        retry = self._retry
        delay_ms = retry.retry_initial_backoff_ms * retry.retry_backoff_multiplier ** (number - 1)
        jitter = 1 + random.uniform(-1, 1) * retry.retry_jitter_factor  # noqa: S311
        return min(delay_ms, retry.retry_max_backoff_ms) * jitter / 1000


def retry_of_status(status: int) -> errors.Retry:
    """May a request be tried again after a worker answered `status`?"""
    if status in RETRYABLE:
        return errors.Retry.YES
    return errors.Retry.OTHER_WORKER if status in ELSEWHERE else errors.Retry.NO
