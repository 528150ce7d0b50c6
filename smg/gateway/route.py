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
        """A worker that serves the call; untried ones first. Raises 404, 501 and 503."""
        ready = self._ready(call)
        now = time.monotonic()
        candidates = ready
        if tried:
            candidates = tuple(w for w in candidates if w not in tried) or candidates
        worker = self._policy.choose(candidates, call)
        if worker is None or not worker.breaker.allows(now):
            worker = self._among_allowed(ready, tried, call, now)
        if worker is None:
            raise errors.no_available_workers(call.model or "")
        return Lease(worker, worker in tried)

    def _ready(self, call: Call) -> tuple[Worker, ...]:
        """The workers that could serve the call now, at least one."""
        entry = self._registry.any_entry() if call.model is None else self._registry.find(call.model)
        if entry is None:
            raise errors.model_not_found(call.model or "")
        ready, not_external = entry.ready, call.surface.not_external
        if not_external is not None:
            if entry.workers and all(w.is_external for w in entry.workers):
                raise not_external()
            ready = tuple(w for w in ready if not w.is_external)
        if not ready:
            raise errors.no_available_workers(call.model or "")
        return ready

    def _among_allowed(
        self, ready: tuple[Worker, ...], tried: tuple[Worker, ...], call: Call, now: float
    ) -> Worker | None:
        allowed = tuple(w for w in ready if w.breaker.would_allow(now))
        candidates = tuple(w for w in allowed if w not in tried) or allowed
        worker = self._policy.choose(candidates, call) if candidates else None
        return worker if worker is not None and worker.breaker.allows(now) else None

    def has_untried(self, call: Call, tried: tuple[Worker, ...]) -> bool:
        try:
            ready = self._ready(call)
        except errors.GatewayError:
            return False
        now = time.monotonic()
        return any(w not in tried and w.breaker.would_allow(now) for w in ready)

    def may_retry(self, how: errors.Retry, call: Call, number: int, tried: tuple[Worker, ...]) -> bool:
        """Is attempt `number` (from 1), which failed in a way that allows `how`, followed by another?"""
        if how is errors.Retry.NO or number >= self.attempts:
            return False
        return how is errors.Retry.YES or self.has_untried(call, tried)

    def delay_s(self, number: int) -> float:
        """How long to wait after attempt `number`."""
        retry = self._retry
        delay_ms = retry.retry_initial_backoff_ms * retry.retry_backoff_multiplier ** (number - 1)
        jitter = 1 + random.uniform(-1, 1) * retry.retry_jitter_factor  # noqa: S311
        return min(delay_ms, retry.retry_max_backoff_ms) * jitter / 1000
