"""W3C trace context: a caller's trace continued towards the workers, and the spans of sampled exchanges.

Without a parent that can be read a new sampled trace begins. Spans are plain tuples here; who sends them
to a collector is handed in.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

# Later versions may add something behind the flags; version ff does not exist.
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_PARENT_NAME, _STATE_NAME = b"traceparent", b"tracestate"

Value = str | int | float | bool


class Span(NamedTuple):
    """Times are those of the monotonic clock, in ns; IDs are hex digits, `parent_id` empty at a trace's root.
    `is_server`: the exchange itself, not an attempt at a worker."""

    name: str
    is_server: bool
    trace_id: str
    span_id: str
    parent_id: str
    begun_ns: int
    ended_ns: int
    attributes: Mapping[str, Value]
    failed: bool


class Parent(NamedTuple):
    """Whose trace an exchange belongs to; all empty but the flags when it begins one."""

    trace_id: bytes
    span_id: bytes
    flags: bytes


def read_parent(lines: list[bytes]) -> Parent | None:
    """The parent that the values of `traceparent` name; None when there is not exactly one good one."""
    found = _PARENT.fullmatch(lines[0]) if len(lines) == 1 else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if (version == b"00" and more is not None) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Parent(trace_id, span_id, flags)


class Trace:
    """One exchange of a trace. `emit` takes its spans; None: it is not sampled."""

    __slots__ = ("_attempts", "_begun_ns", "_emit", "_parent", "_rest", "_span_id", "_states")

    def __init__(self, forward: bytes, begun_ns: int, emit: Callable[[Span], None]) -> None:
        parents, states, rest = _split(forward)
        parent = read_parent(parents)
        if parent is None:
            states = []
            parent = Parent(_random(16), b"", b"01")
        self._parent = parent
        self._rest = rest
        # An empty one tells the worker that nothing was lost on the way.
        self._states = b"".join(states) or _STATE_NAME + b": \r\n"
        self._begun_ns = begun_ns
        self._emit = emit if int(parent.flags, 16) & _SAMPLED else None
        self._span_id = _random(8)
        self._attempts: list[tuple[bytes, int, str]] = []

    @property
    def trace_id(self) -> str:
        return self._parent.trace_id.decode()

    def forward(self, worker: str) -> bytes:
        """The client's header lines for an attempt at `worker`, the trace's own in place of the client's."""
        span_id = _random(8)
        if self._emit is not None:
            self._attempts.append((span_id, time.monotonic_ns(), worker))
        parent = self._parent
        own = b"traceparent: 00-%b-%b-%b\r\n" % (parent.trace_id, span_id, parent.flags)
        return b"%b%b%b" % (self._rest, own, self._states)

    def attempt_ended(self, status: int, code: str) -> None:
        """The attempts under way are over; `code`: why there was no answer of the worker's own."""
        emit = self._emit
        if emit is None:
            return
        now = time.monotonic_ns()
        for span_id, begun_ns, worker in self._attempts:
            attributes: dict[str, Value] = {"smg.worker": worker}
            emit(
                self._span("attempt", False, span_id, self._span_id, begun_ns, now, status, code, attributes)
            )
        self._attempts.clear()

    def end(self, name: str, status: int, code: str, attributes: dict[str, Value]) -> None:
        """The exchange is over."""
        emit = self._emit
        if emit is None:
            return
        self.attempt_ended(status, code)
        ids = self._span_id, self._parent.span_id
        emit(self._span(name, True, *ids, self._begun_ns, time.monotonic_ns(), status, code, attributes))

    def _span(
        self,
        name: str,
        is_server: bool,
        span_id: bytes,
        parent_id: bytes,
        begun_ns: int,
        ended_ns: int,
        status: int,
        code: str,
        attributes: dict[str, Value],
    ) -> Span:
        attributes["http.response.status_code"] = status
        if code:
            attributes["error.type"] = code
        failed = status >= 500 or code == "stream_error" or (bool(code) and not is_server)
        return Span(
            name,
            is_server,
            self.trace_id,
            span_id.decode(),
            parent_id.decode(),
            begun_ns,
            ended_ns,
            attributes,
            failed,
        )


def _split(forward: bytes) -> tuple[list[bytes], list[bytes], bytes]:
    """The values of `traceparent`, the lines of `tracestate`, and all other lines."""
    parents, states, rest = [], [], []
    for line in forward.splitlines(keepends=True):
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == _PARENT_NAME:
            parents.append(value.strip())
        elif name == _STATE_NAME:
            states.append(line)
        else:
            rest.append(line)
    return parents, states, b"".join(rest)


def _random(size: int) -> bytes:
    return os.urandom(size).hex().encode()
