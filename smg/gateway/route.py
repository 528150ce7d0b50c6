"""From a call to a worker, and from a failed attempt to the next one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType

import msgspec

from smg import errors
from smg.api import hints
from smg.api.call import Call
from smg.api.surfaces import Surface
from smg.config.model import Retry as RetryOptions
from smg.gateway import explain
from smg.gateway.retries import Pauses, RetryBudget, attempts_of
from smg.policies.ask import Ask, Ticket
from smg.policies.choices import Choices
from smg.policies.choose import Policy
from smg.policies.manual import Pins, Sticky
from smg.workers.breaker import FAILURE_STATUSES
from smg.workers.overload import Overload
from smg.workers.registry import Change, ModelEntry, Registry
from smg.workers.warmup import Warmup
from smg.workers.worker import Worker

MAX_POLICIES = 1024
"""Models with routing state of their own; the others share one."""


class Lease:
    """A worker chosen for one attempt, counted in its load until the attempt ends.

    `outcome`: True and False tell the breaker of success and failure, None tells it nothing. A request
    that fails again on a worker it has tried (`again`) is no further failure for the breaker.
    """

    __slots__ = ("_report_number", "again", "outcome", "ticket", "unreachable", "worker")

    def __init__(self, worker: Worker, again: bool, ticket: Ticket | None = None) -> None:
        self.worker = worker
        self.again = again
        self.outcome: bool | None = None
        self.unreachable = False
        self.ticket = ticket
        self._report_number = 0

    @property
    def on_first_event(self) -> Callable[[float], None] | None:
        """Whom to tell, with the time, when the worker sends the first of its answer's body."""
        return self.ticket.first_event if self.ticket is not None else None

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
        now = time.monotonic()
        if self.ticket is not None:
            self.ticket.end(now)
        if self.unreachable:
            if worker.contact is not None:
                worker.contact.failed(worker, now)
        elif self.outcome is not None:
            worker.heard_at = worker.done_at = now
        if self.outcome is None or (self.again and not self.outcome):
            worker.breaker.release()
        else:
            worker.breaker.record(self.outcome, now, unreachable=self.unreachable)

    def failed(self, *, unreachable: bool) -> None:
        """There was no answer; `unreachable`: the connection failed, not the worker's work."""
        self.outcome = False
        self.unreachable = unreachable

    def answered(self, status: int) -> None:
        self.outcome = status not in FAILURE_STATUSES

    def add_to(self, tried: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """The attempt has failed: `tried`, and the worker that it failed at."""
        return tried if self.worker in tried else (*tried, self.worker)


class Router:
    """Finds candidates, asks the model's policy, counts attempts. `make_policy`: one for each model.

    `pins`: sticky sessions are on; a request's key then stays where the policy has placed it first.
    `overload` knows the workers that are to be spared; None: nobody is.
    """

    has_turns = False
    """Is there a `turn` to wait for before each attempt?"""
    recalls = False
    """Is there something to `recall` before the first?"""

    def __init__(
        self,
        registry: Registry,
        make_policy: Callable[[], Policy],
        retry: RetryOptions,
        key_names: Sequence[str] = (),
        pins: Pins | None = None,
        overload: Overload | None = None,
    ) -> None:
        self._registry = registry
        self._unreachable, self._stuck = registry.unreachable, registry.stuck
        self._make_policy = make_policy
        self._policies: dict[str, Policy] = {}
        self._retry = retry
        self._pauses = Pauses(retry)
        self.budget = RetryBudget(time.monotonic())
        self.overload = overload
        self._overloaded: Collection[Worker] = overload.workers if overload is not None else ()
        self._key_names = tuple(name.lower().encode() for name in key_names)
        self._pins = pins
        self._any = self._new_policy()
        self.choices = Choices()
        self.warmup: Warmup | None = None
        self.attempts = attempts_of(retry)
        registry.on_change(self._on_change)

    @property
    def reads_body(self) -> bool:
        return self._any.reads_body

    @property
    def buffered_because(self) -> str:
        """Why bodies are read that need not be passed on as they come, for the metrics."""
        return "policy_needs_text" if self.reads_body else "retryable"

    @property
    def serves_one_model(self) -> bool:
        return len(self._registry.self_hosted_models) <= 1

    def has_hint(self, get: hints.Get) -> bool:
        """Do the headers alone tell where the request belongs, so that its body need not be read?"""
        return self._pins is None and hints.tokens(get(hints.ROUTING_TOKENS)) is not None

    def check_surface(self, surface: Surface) -> None:
        """Raises 501 for what no worker there is could serve, whatever its model."""

    async def turn(self, call: Call) -> None:
        """Wait until there may be an attempt at the call."""

    async def recall(self, call: Call, get: hints.Get) -> None:
        """Find out where other gateways have placed the call's key."""
        recall = getattr(self._policy_of(call), "recall", None)
        if recall is not None:
            await recall(Ask(call, get, self._key_names))

    def lease(self, call: Call, get: hints.Get, tried: tuple[Worker, ...] = ()) -> Lease:
        """A worker that serves the call; untried ones first. Raises 404, 501 and 503."""
        return self.lease_among(self._ready(call), call, get, tried)

    def lease_among(
        self, ready: tuple[Worker, ...], call: Call, get: hints.Get, tried: tuple[Worker, ...]
    ) -> Lease:
        """One of `ready`, as `lease` chooses it. Raises 503."""
        now = time.monotonic()
        candidates = self._available(ready, call, now)
        if tried:
            candidates = tuple(w for w in candidates if w not in tried) or candidates
        else:
            self.budget.earn(now)
        if call.surface.is_realtime:
            return self._least_loaded(candidates, now, tried)
        ask = Ask(call, get, self._key_names)
        policy = self._policy_of(call)
        try:
            chosen = policy.choose(candidates, ask)
            self.choices.note(ask, chosen)
            if ask.why is not None:
                explain.note(ask.why, policy, ask, chosen, candidates)
            if chosen is None or not chosen.breaker.allows(now):
                raise errors.no_available_workers(call.model or "")
            return Lease(chosen, chosen in tried, ask.ticket)
        except BaseException:
            if ask.ticket is not None:
                ask.ticket.end(now)
            raise

    def _least_loaded(self, candidates: tuple[Worker, ...], now: float, tried: tuple[Worker, ...]) -> Lease:
        """For a realtime session: it holds its worker for long, and no policy knows its prompt."""
        chosen = min(candidates, key=lambda worker: (worker.load, random.random()))  # noqa: S311
        chosen.breaker.allows(now)
        return Lease(chosen, chosen in tried)

    def _available(self, ready: tuple[Worker, ...], call: Call, now: float) -> tuple[Worker, ...]:
        """Those that may get the call now, at least one."""
        for worker in ready:
            if worker.breaker.state:  # not closed
                ready = tuple(w for w in ready if w.breaker.would_allow(now))
                break
        if not ready:
            raise errors.no_available_workers(call.model or "")
        if self._unreachable or self._stuck:
            lost = self._unreachable | self._stuck
            ready = tuple(w for w in ready if w not in lost) or ready
        if self._overloaded and self.overload is not None:
            ready = self.overload.spare(ready)
            if not ready:
                raise errors.worker_overload_protection_shed(call.model or "", self.overload.retry_after_s)
        return ready

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
        self.choices.forget(worker)
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
        if call.surface.is_realtime:
            return _ready_for_realtime(entry, call.model or "")
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
        spared = {*self._overloaded, *self._unreachable, *self._stuck}
        return any(w not in tried and w.breaker.would_allow(now) and w not in spared for w in ready)

    def may_retry(
        self, how: errors.Retry, call: Call, number: int, tried: tuple[Worker, ...], worker: Worker
    ) -> bool:
        """Is attempt `number` (from 1), which failed at `worker` in a way that allows `how`, followed by
        another? Asked once for each; takes that one from the budget."""
        attempts = self.attempts if not worker.retries else attempts_of(self._retry_at(worker))
        if how is errors.Retry.NO or number >= attempts:
            return False
        if how is not errors.Retry.YES and not self.has_untried(call, tried):
            return False
        return self.budget.try_spend(time.monotonic())

    def delay_s(self, number: int, worker: Worker) -> float:
        """How long to wait after attempt `number`, which failed at `worker`."""
        pauses = self._pauses if not worker.retries else Pauses(self._retry_at(worker))
        return pauses.after_s(number)

    def _retry_at(self, worker: Worker) -> RetryOptions:
        return msgspec.structs.replace(self._retry, **worker.retries)


def _ready_for_realtime(entry: ModelEntry, model: str) -> tuple[Worker, ...]:
    """The workers of a model that speak the Realtime API; raises 404 when none does."""
    if not any(worker.speaks_realtime for worker in entry.workers):
        raise errors.model_not_found(model)
    ready = tuple(worker for worker in entry.ready if worker.speaks_realtime)
    if not ready:
        raise errors.no_available_workers(model)
    return ready


def _conversation_of(ask: Ask) -> bytes | None:
    """A sticky session's name, without the number of its turn."""
    key = ask.session
    return hints.conversation(key) if key is not None else None
