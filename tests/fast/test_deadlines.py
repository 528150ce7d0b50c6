"""Deadlines of many objects with one timer, against a plain list; the objects are client connections."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast.ingress import Ingress
from tests.fast.reference.deadlines import DeadlineList
from tests.fast.stage import Stage, echo, post
from tests.fast.transports import FakeTransport, pass_a_moment

NAMES = "abcde"


class Listed(FakeTransport):
    """Notes in a list that its deadline has passed."""

    def __init__(self, name: str, passed: list[str]) -> None:
        super().__init__()
        self._name = name
        self._passed = passed

    def abort(self) -> None:
        self._passed.append(self._name)
        super().abort()


class Connections:
    """Waits in `idle`: a request arms it, the beginning of a head disarms it."""

    def __init__(self, seconds: float) -> None:
        self.stage = Stage(echo, idle_s=seconds, header_read_s=0)
        self.passed: list[str] = []
        self.model = DeadlineList(seconds)
        self._alive: dict[str, Listed] = {}
        self._in_head: set[str] = set()

    @property
    def idle(self) -> Any:
        return self.stage.limits.idle

    def arm(self, name: str) -> None:
        client = self._alive.get(name)
        if client is None:
            client = self._alive[name] = Listed(name, self.passed)
            client.connect(Ingress(self.stage.front))
        self.stage.send(client, post()[1:] if name in self._in_head else post())
        self._in_head.discard(name)
        self.model.arm(name, 0)

    def disarm(self, name: str) -> None:
        if name in self._alive and name not in self._in_head:
            self.stage.send(self._alive[name], b"P")
            self._in_head.add(name)
            self.model.disarm(name)

    def leave(self, name: str) -> None:
        if name in self._alive:
            self._alive.pop(name).lose()
            self._in_head.discard(name)
            self.model.disarm(name)

    def expire(self, name: str) -> None:
        pass_a_moment()
        before = len(self.passed)
        self.stage.timers.fire(self.idle)
        wanted = self.model.expire(1)
        assert self.passed[before:] == wanted
        for one in wanted:
            del self._alive[one]

    def check(self) -> None:
        assert self.idle.armed == len(self.model.names)
        timers = self.stage.timers.of(self.idle)
        assert len(timers) <= 1
        assert timers or not self.model.names


steps = st.lists(
    st.tuples(st.sampled_from(["arm", "arm", "disarm", "leave", "expire"]), st.sampled_from(NAMES)),
    max_size=30,
)


@settings(max_examples=150, derandomize=True)
@given(steps, st.sampled_from([1e-9, 1000.0, 0.0, -1.0]))
def test_as_a_plain_list(actions: list[tuple[str, str]], seconds: float) -> None:
    connections = Connections(seconds)
    for action, name in actions:
        getattr(connections, action)(name)
        connections.check()


def test_a_timer_that_is_early_is_set_again() -> None:
    connections = Connections(1000.0)
    connections.arm("a")
    assert connections.stage.timers.fire(connections.idle) == 1
    assert connections.passed == []
    [timer] = connections.stage.timers.of(connections.idle)
    assert 990 < timer.delay <= 1000.001


class Replaced(Listed):
    """Another connection is made while its deadline passes."""

    def __init__(self, stage: Stage) -> None:
        super().__init__("", [])
        self._stage = stage

    def abort(self) -> None:
        super().abort()
        self._stage.client()


def spin_until(moment: float) -> None:
    while time.monotonic() < moment:
        pass


def test_one_that_is_armed_while_another_passes_does_not_delay_a_third() -> None:
    seconds = 0.04
    stage = Stage(echo, header_read_s=seconds)
    Replaced(stage).connect(Ingress(stage.front))
    start = time.monotonic()
    spin_until(start + seconds / 2)
    third = stage.client()
    third_due = time.monotonic() + seconds
    spin_until(start + seconds)
    fired = time.monotonic()
    stage.timers.fire(stage.limits.header_read)
    [timer] = stage.timers.of(stage.limits.header_read)
    assert third.was_aborted or timer.delay <= third_due - fired + 0.002


def test_close_forgets_everybody() -> None:
    connections = Connections(1e-9)
    for name in NAMES:
        connections.arm(name)
    connections.stage.limits.close()
    assert connections.idle.armed == 0 and not connections.stage.timers.pending
    assert connections.passed == []


def test_a_closed_loop_is_no_error() -> None:
    stage = Stage(echo)

    def closed(delay: float, callback: Any) -> Any:
        raise RuntimeError("the loop is closed")

    stage.timers.call_later = closed  # type: ignore[method-assign]
    client = stage.client(post(b"x"))
    assert b"200 OK" in client.data
