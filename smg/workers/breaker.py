"""Circuit breaker of one worker: opens after consecutive failures, closes after probes that succeed.

It has no timer and no clock: every call is given `now` in seconds of a clock that should be
monotonic. A clock that goes back delays nothing for longer than the timeout.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable

FAILURE_STATUSES = frozenset({408, 500, 502, 503, 504})


class State(enum.IntEnum):
    """The values are those of the metric."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class Breaker:
    """`window_s`: failures older than this do not count. `on_change` is told (old, new). `successes` and
    `failures`: all outcomes it was ever told of; `consecutive_successes`: since the last failure or the
    breaker's last opening."""

    __slots__ = (
        "_claimed_at",
        "_enabled",
        "_failure_threshold",
        "_failures",
        "_on_change",
        "_only_unreachable",
        "_opened_at",
        "_success_threshold",
        "_timeout_s",
        "_tripped",
        "_window_s",
        "consecutive_successes",
        "failures",
        "state",
        "successes",
    )

    def __init__(
        self,
        failure_threshold: int,
        success_threshold: int,
        timeout_s: float,
        window_s: float,
        enabled: bool,
        on_change: Callable[[State, State], None] | None = None,
    ) -> None:
        self._failure_threshold = failure_threshold
        self._success_threshold = success_threshold
        self._timeout_s = timeout_s
        self._window_s = window_s
        self._enabled = enabled
        self._on_change = on_change
        self._failures: deque[float] = deque()
        self._opened_at = 0.0
        self._claimed_at: float | None = None
        self._tripped = False
        self._only_unreachable = True
        self.state = State.CLOSED
        self.consecutive_successes = 0
        self.successes = 0
        self.failures = 0

    @property
    def consecutive_failures(self) -> int:
        return len(self._failures)

    def would_allow(self, now: float) -> bool:
        """Would `allows` say yes? Claims nothing: for filtering candidates."""
        if not self._tripped:
            return True
        if self.state is State.OPEN:
            if now < self._opened_at:
                self._opened_at = now
            return now - self._opened_at >= self._timeout_s
        if self._claimed_at is None:
            return True
        if now < self._claimed_at:
            self._claimed_at = now
        # A probe whose outcome never came must not keep the worker shut for ever.
        return now - self._claimed_at >= self._timeout_s

    def allows(self, now: float) -> bool:
        """May a request go to the worker? In half-open state the caller then owns the one probe."""
        if not self._tripped:
            return True
        if not self.would_allow(now):
            return False
        self._claimed_at = now
        if self.state is State.OPEN:
            self.consecutive_successes = 0
            self._move(State.HALF_OPEN)
        return True

    def record(self, ok: bool, now: float, unreachable: bool = False) -> None:
        """Count the outcome of one request; see `FAILURE_STATUSES` for what is not `ok`. `unreachable`: it
        failed because there was no connection."""
        if ok:
            self.successes += 1
        else:
            self.failures += 1
        if ok and not self._tripped:
            self.consecutive_successes += 1
            if self._failures:
                self._failures.clear()
                self._only_unreachable = True
            return
        if not self._enabled or self.state is State.OPEN:
            return
        if not ok and not unreachable:
            self._only_unreachable = False
        if self.state is State.HALF_OPEN:
            self._record_probe(ok, now)
            return
        self._note_failure(now)
        if len(self._failures) >= self._failure_threshold:
            self._open(now)

    def reset(self) -> None:
        """Close: the worker was seen to be well again by other means than a request."""
        self._failures.clear()
        self._only_unreachable = True
        self._claimed_at = None
        if self._tripped:
            self._tripped = False
            self._move(State.CLOSED)

    def on_reachable(self) -> None:
        """A health check came through: what failed only for want of a connection works again."""
        if self._tripped and self._only_unreachable:
            self.reset()

    def release(self) -> None:
        """Give an allowed request back without an outcome, e.g. because its client went away."""
        self._claimed_at = None

    def _record_probe(self, ok: bool, now: float) -> None:
        if not ok:
            self._note_failure(now)
            self._open(now)
            return
        self._claimed_at = None
        self.consecutive_successes += 1
        self._failures.clear()
        if self.consecutive_successes >= self._success_threshold:
            self._only_unreachable = True
            self._tripped = False
            self._move(State.CLOSED)

    def _note_failure(self, now: float) -> None:
        self.consecutive_successes = 0
        self._failures.append(now)
        while now - self._failures[0] > self._window_s:
            self._failures.popleft()

    def _open(self, now: float) -> None:
        self._tripped = True
        self._opened_at = now
        self._claimed_at = None
        self._move(State.OPEN)

    def _move(self, state: State) -> None:
        old, self.state = self.state, state
        if self._on_change is not None:
            self._on_change(old, state)
