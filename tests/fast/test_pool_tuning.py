"""A pool with timeouts and a size of its own, beside those of all workers."""

from __future__ import annotations

import pytest

from smg._fast import exchange as fast
from tests.fast.stage import JSON, Stage, answers_of, post, relay_stage, sized
from tests.fast.transports import armed


def played(count: int = 1) -> Stage:
    """With so many idle connections."""
    stage = relay_stage(stream=False)
    for number in range(count):
        stage.client(post(b"%d" % number))
    for worker in stage.workers:
        worker.deliver(JSON + sized(b"{}"))
    return stage


def test_what_is_not_a_workers_own_is_that_of_all() -> None:
    pool, limits = relay_stage().pool, relay_stage().limits
    pool.tune(None, limits.request.seconds, limits.pool_idle.seconds)
    assert (pool.request, pool.unused) == (pool.limits.request, pool.limits.pool_idle)
    assert pool.max_idle > 0


def test_a_request_timeout_of_its_own() -> None:
    stage = relay_stage(stream=False)
    stage.pool.tune(None, 1e-8, None)
    client = stage.client(post(b"x"))
    assert (stage.pool.request.armed, stage.limits.request.armed) == (1, 0)
    assert stage.timers.fire(stage.pool.request) == 1
    assert stage.x.outcome == fast.TIMED_OUT and stage.worker.was_aborted
    assert answers_of(client)[0].status == 504
    stage.assert_settled()


def test_what_is_under_way_keeps_its_time() -> None:
    stage = relay_stage(stream=False)
    stage.client(post(b"x"))
    stage.pool.tune(None, 1e-8, None)
    own = stage.pool.request
    assert (own.armed, stage.limits.request.armed) == (0, 1)
    stage.client(post(b"y"))
    stage.pool.tune(None, None, None)
    assert (own.armed, stage.limits.request.armed) == (1, 1)
    assert stage.timers.fire(own) == 1
    assert [x.outcome for x in stage.exchanges] == [fast.PENDING, fast.TIMED_OUT]


def test_deadlines_that_stay_as_long_stay() -> None:
    pool = relay_stage().pool
    pool.tune(None, 5, 6)
    kept = pool.request, pool.unused
    pool.tune(3, 5, 6)
    assert (pool.request, pool.unused, pool.max_idle) == (*kept, 3)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_so_many_connections_are_kept(most: int) -> None:
    stage = relay_stage(stream=False)
    stage.pool.tune(most, None, None)
    for number in range(3):
        stage.client(post(b"%d" % number))
    for worker in stage.workers:
        worker.deliver(JSON + sized(b"{}"))
    assert [worker.is_closing for worker in stage.workers] == [at >= most for at in range(3)]
    assert len(stage.pool.idle) == most


def test_the_longest_unused_are_closed_when_fewer_may_stay() -> None:
    stage = played(3)
    stage.pool.tune(1, None, None)
    assert [worker.is_closing for worker in stage.workers] == [True, True, False]
    stage.assert_settled()


def test_an_idle_time_of_its_own_holds_for_idle_connections_too() -> None:
    stage = played(2)
    assert armed(stage.limits)["pool_idle"] == 2
    stage.pool.tune(None, None, 1e-8)
    assert (stage.pool.unused.armed, stage.limits.pool_idle.armed) == (2, 0)
    assert stage.timers.fire(stage.pool.unused) == 1
    assert all(worker.is_closing for worker in stage.workers) and not stage.pool.idle


def test_a_closed_pool_leaves_no_timer_of_its_own() -> None:
    stage = played()
    stage.pool.tune(None, 5, 6)
    own = stage.pool.request, stage.pool.unused
    stage.client(post(b"x"))
    stage.worker.deliver(JSON + sized(b"{}"))
    assert all(stage.timers.of(one) for one in own)
    stage.pool.close()
    assert not any(stage.timers.of(one) for one in own)
