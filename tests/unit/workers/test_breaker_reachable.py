"""A breaker that opened only because there was no connection closes when a health check comes through."""

from __future__ import annotations

from smg.workers.breaker import Breaker, State


def opened(*unreachable: bool) -> Breaker:
    breaker = Breaker(len(unreachable), 1, 60.0, 120.0, True)
    for number, how in enumerate(unreachable):
        breaker.record(False, float(number), unreachable=how)
    assert breaker.state is State.OPEN
    return breaker


def test_closes_when_every_failure_was_a_connection() -> None:
    breaker = opened(True, True, True)
    breaker.on_reachable()
    assert breaker.state is State.CLOSED
    assert breaker.allows(3.0)
    assert breaker.consecutive_failures == 0


def test_stays_open_when_the_worker_itself_failed() -> None:
    breaker = opened(True, False, True)
    breaker.on_reachable()
    assert breaker.state is State.OPEN
    assert not breaker.allows(3.0)


def test_a_success_forgets_what_kind_the_failures_were() -> None:
    breaker = Breaker(2, 1, 60.0, 120.0, True)
    breaker.record(False, 0.0)
    breaker.record(True, 1.0)
    breaker.record(False, 2.0, unreachable=True)
    breaker.record(False, 3.0, unreachable=True)
    breaker.on_reachable()
    assert breaker.state is State.CLOSED


def test_a_closed_breaker_keeps_its_count() -> None:
    breaker = Breaker(3, 1, 60.0, 120.0, True)
    breaker.record(False, 0.0, unreachable=True)
    breaker.on_reachable()
    assert breaker.consecutive_failures == 1
