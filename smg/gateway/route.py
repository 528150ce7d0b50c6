"""From a call to a worker, and from a failed attempt to the next one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from smg import errors
from smg.api import hints
from smg.api.call import Call
from smg.config.model import Retry as RetryOptions
from smg.policies.ask import Ask, Ticket
from smg.policies.choose import Policy
from smg.policies.manual import Pins, Sticky
from smg.workers.breaker import FAILURE_STATUSES
from smg.workers.registry import Change, Registry
from smg.workers.worker import Worker

MAX_POLICIES = 1024
"""Models with routing state of their own; the others share one."""


class Lease:
    """A worker chosen for one attempt, counted in its load until the attempt ends.

    `outcome`: True and False tell the breaker of success and failure, None tells it nothing. A request
    that fails again on a worker it has tried (`again`) is no further failure for the breaker.
    """

    __slots__ = ("_report_number", "_ticket", "again", "outcome", "unreachable", "worker")

    def __init__(self, worker: Worker, again: bool, ticket: Ticket | None = None) -> None:
        self.worker = worker
        self.again = again
        self.outcome: bool | None = None
        self.unreachable = False
        self._ticket = ticket
        self._report_number = 0

    @property
    def on_first_event(self) -> Callable[[float], None] | None:
        """Whom to tell, with the time, when the worker sends the first of its answer's body."""
        return self._ticket.first_event if self._ticket is not None else None

    def __enter__(self) -> Lease:
        worker = self.worker
        worker.load += 1
        worker.sent_since_report += 1
        self._report_number = worker.report_number
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker = self.worker
        worker.load -= 1
        if worker.report_number == self._report_number:
            worker.sent_since_report -= 1
        if self._ticket is not None:
            self._ticket.end(time.monotonic())
        if self.outcome is None or (self.again and not self.outcome):
            worker.breaker.release()
        else:
            worker.breaker.record(self.outcome, time.monotonic(), unreachable=self.unreachable)

    def failed(self, *, unreachable: bool) -> None:
        """There was no answer; `unreachable`: the connection failed, not the worker's work."""
        self.outcome = False
        self.unreachable = unreachable

    def answered(self, status: int) -> None:
        self.outcome = status not in FAILURE_STATUSES


class Router:
    """Finds candidates, asks the model's policy, counts attempts. `make_policy`: one for each model.

    `pins`: sticky sessions are on; a request's key then stays where the policy has placed it first.
    """

    def __init__(
        self,
        registry: Registry,
        make_policy: Callable[[], Policy],
        retry: RetryOptions,
        key_names: Sequence[str] = (),
        pins: Pins | None = None,
    ) -> None:
        self._registry = registry
        self._make_policy = make_policy
        self._policies: dict[str, Policy] = {}
        self._retry = retry
        self._key_names = tuple(name.lower().encode() for name in key_names)
        self._pins = pins
        self._any = self._new_policy()
        self.attempts = 1 if retry.disable_retries else retry.retry_max_retries
        registry.on_change(self._on_change)

    @property
    def reads_body(self) -> bool:
        return self._any.reads_body

    @property
    def serves_one_model(self) -> bool:
        return len(self._registry.self_hosted_models) <= 1

    def has_hint(self, get: hints.Get) -> bool:
        """Do the headers alone tell where the request belongs, so that its body need not be read?"""
        return self._pins is None and hints.tokens(get(hints.ROUTING_TOKENS)) is not None

    def lease(self, call: Call, get: hints.Get, tried: tuple[Worker, ...] = ()) -> Lease:
        """A worker that serves the call; untried ones first. Raises 404, 501 and 503."""
        ready = self._ready(call)
        now = time.monotonic()
        for worker in ready:
            if worker.breaker.state:  # not closed
                ready = tuple(w for w in ready if w.breaker.would_allow(now))
                break
        if not ready:
            raise errors.no_available_workers(call.model or "")
        candidates = ready
        if tried:
            candidates = tuple(w for w in candidates if w not in tried) or candidates
        ask = Ask(call, get, self._key_names)
        policy = self._policy_of(call)
        chosen = policy.choose(candidates, ask)
        if chosen is None or not chosen.breaker.allows(now):
            if ask.ticket is not None:
                ask.ticket.end(now)
            raise errors.no_available_workers(call.model or "")
        return Lease(chosen, chosen in tried, ask.ticket)

    def _policy_of(self, call: Call) -> Policy:
        model = call.model
        if model is None:
            return self._any
        policy = self._policies.get(model)
        if policy is None:
            if self._registry.find(model) is None or len(self._policies) >= MAX_POLICIES:
                return self._any
            policy = self._policies[model] = self._new_policy()
        return policy

    def _new_policy(self) -> Policy:
        policy = self._make_policy()
        if self._pins is None or not getattr(policy, "takes_pins", True):
            return policy
        return Sticky(policy, self._pins, _conversation_of)

    def _on_change(self, change: Change, worker: Worker) -> None:
        if change is not Change.REMOVED:
            return
        for policy in (self._any, *self._policies.values()):
            forget = getattr(policy, "forget", None)
            if forget is not None:
                forget(worker)
        for model in [model for model in self._policies if self._registry.find(model) is None]:
            del self._policies[model]

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


def _conversation_of(ask: Ask) -> bytes | None:
    """What a sticky session is known by: the routing key, else the body's `rid`."""
    key = ask.key or ask.rid
    return hints.conversation(key) if key is not None else None
