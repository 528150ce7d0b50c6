"""The priority scheduler: its rules one by one, and any history against a plain telling of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg.admission.priority import Scheduler
from smg.admission.reservations import reservations
from smg.config.admission import CLASSES
from smg.config.side_files import Classes, ClassOptions, SchedulerFile, TenantPolicy
from tests.unit.admission.plain_scheduler import Plain
from tests.unit.admission.virtual import Request, Stage


def options(**given: Any) -> ClassOptions:
    usual = {
        "reserved_floor": 0, "queue_size": 9, "queue_timeout_secs": 60, "starvation_threshold_secs": 30,
        "can_preempt": False,
    }  # fmt: skip
    return ClassOptions(**{**usual, **given})


def make(
    stage: Stage, capacity: int, max_class: str = "system", policies: Any = None, **classes: Any
) -> Scheduler:
    table = Classes(**{name: options(**classes.get(name, {})) for name in CLASSES})
    return Scheduler(
        SchedulerFile(classes=table, tenant_policies=policies or {}), max_class, 2, capacity, stage.loop
    )


def come(stage: Stage, scheduler: Scheduler, *priorities: str, tenant: str = "t") -> list[Request]:
    return [stage.comes(scheduler, Request(n, p.encode(), tenant)) for n, p in enumerate(priorities)]


def test_the_higher_class_first_and_in_a_class_the_first(stage: Stage) -> None:
    scheduler = make(stage, 1)
    requests = come(stage, scheduler, "bulk", "bulk", "default", "interactive", "system", "system")
    order = [0, 4, 5, 3, 2, 1]
    for n in order:
        assert requests[n].state == "running"
        stage.ends(requests[n])
    stage.close(scheduler)


@pytest.mark.parametrize("word", ["BULK", "  bulk ", "Bulk\t"])
def test_a_class_in_any_case_with_blanks(stage: Stage, word: str) -> None:
    scheduler = make(stage, 1)
    [request] = come(stage, scheduler, word)
    assert scheduler.used == [0, 0, 0, 1]
    stage.ends(request)
    stage.close(scheduler)


@pytest.mark.parametrize("word", [None, b"", b"urgent", b"0", b"\xff", b"system2"])
def test_no_known_class_is_default(stage: Stage, word: bytes | None) -> None:
    scheduler = make(stage, 1)
    request = stage.comes(scheduler, Request(0, word))
    assert scheduler.used == [0, 0, 1, 0]
    stage.ends(request)
    stage.close(scheduler)


def test_ceilings_and_their_labels(stage: Stage) -> None:
    policies = {"header:gold": TenantPolicy("system"), "header:low": TenantPolicy("bulk")}
    scheduler = make(stage, 9, "default", policies)
    for tenant in ("header:gold", "header:low", "a", "b", "c"):
        come(stage, scheduler, "interactive", tenant=tenant)
    assert scheduler.used == [0, 1, 3, 1]
    assert set(scheduler.clamps) == {
        ("header:low", "interactive", "bulk"),
        ("a", "interactive", "default"),
        ("b", "interactive", "default"),
        ("other", "interactive", "default"),
    }


def test_a_queue_of_its_own_that_is_full(stage: Stage) -> None:
    scheduler = make(stage, 1, bulk={"queue_size": 0}, default={"queue_size": 1})
    requests = come(stage, scheduler, "default", "default", "default", "bulk")
    assert [one.state for one in requests] == ["running", "waiting", *["scheduler_queue_full"] * 2]
    assert requests[3].error is not None and dict(requests[3].error.headers) == {"Retry-After": "2"}
    stage.ends(requests[0])
    stage.ends(requests[1])
    assert scheduler.admits == {
        ("default", "admitted"): 2,
        ("default", "rejected_queue_full"): 1,
        ("bulk", "rejected_queue_full"): 1,
    }
    assert (scheduler.allowed, scheduler.rejected) == (2, 2)
    stage.close(scheduler)


def test_every_class_waits_for_its_own_time(stage: Stage) -> None:
    scheduler = make(stage, 1, default={"queue_timeout_secs": 2}, bulk={"queue_timeout_secs": 4})
    first, one, other = come(stage, scheduler, "default", "default", "bulk")
    stage.pass_time(2)
    assert (one.state, other.state) == ("scheduler_queue_timeout", "waiting")
    stage.pass_time(2)
    assert other.state == "scheduler_queue_timeout"
    stage.ends(first)
    stage.close(scheduler)


def test_what_a_higher_class_keeps_free(stage: Stage) -> None:
    scheduler = make(stage, 4, system={"reserved_floor": 1}, interactive={"reserved_floor": 1})
    low = come(stage, scheduler, "bulk", "bulk", "bulk")
    assert [one.state for one in low] == ["running", "running", "waiting"]
    high = come(stage, scheduler, "interactive", "interactive", "system")
    assert [one.state for one in high] == ["running", "waiting", "running"]
    stage.ends(low[0])
    assert (high[1].state, low[2].state) == ("running", "waiting")
    stage.ends(high[2])
    assert low[2].state == "waiting"  # the free slot is kept for system
    stage.ends(high[0])
    assert low[2].state == "running"  # interactive has its own at work still
    for one in (high[1], *low[1:]):
        stage.ends(one)
    stage.close(scheduler)


def test_the_newest_of_the_lowest_class_gives_way(stage: Stage) -> None:
    scheduler = make(stage, 4, interactive={"can_preempt": True})
    low = come(stage, scheduler, "default", "bulk", "bulk", "default")
    come(stage, scheduler, "interactive")
    assert [one.state for one in low] == ["running", "running", "preempted", "running"]
    low[1].started = True
    come(stage, scheduler, "interactive", "interactive")
    assert [one.state for one in low] == ["preempted", "running", "preempted", "preempted"]
    assert come(stage, scheduler, "interactive")[0].state == "waiting"
    assert scheduler.preemptions == {("bulk", "interactive"): 1, ("default", "interactive"): 2}
    assert scheduler.in_flight == 4


def test_a_displaced_request_gives_nothing_back(stage: Stage) -> None:
    scheduler = make(stage, 1, system={"can_preempt": True})
    [low] = come(stage, scheduler, "bulk")
    [high] = come(stage, scheduler, "system")
    stage.ends(low)
    assert scheduler.in_flight == 1
    stage.ends(high)
    stage.close(scheduler)


def test_who_has_waited_too_long_comes_first_and_may_take_what_is_kept_free(stage: Stage) -> None:
    scheduler = make(
        stage,
        2,
        system={"reserved_floor": 2},
        bulk={"starvation_threshold_secs": 5, "queue_timeout_secs": 60},
    )
    high = come(stage, scheduler, "system", "system")
    [low] = come(stage, scheduler, "bulk")
    stage.pass_time(5)
    [higher] = come(stage, scheduler, "system")
    stage.ends(high[0])
    assert (low.state, higher.state) == ("running", "waiting")
    for one in (high[1], low, higher):
        stage.ends(one)
    [low] = come(stage, scheduler, "bulk")
    assert low.state == "waiting"  # nobody is there, yet all is kept free
    stage.pass_time(5)
    assert low.state == "running"
    stage.ends(low)
    stage.close(scheduler)


def test_more_and_fewer_workers(stage: Stage) -> None:
    scheduler = make(stage, 1)
    requests = come(stage, scheduler, *["default"] * 4)
    scheduler.set_capacity(3)
    stage.loop.settle()
    assert [one.state for one in requests] == ["running"] * 3 + ["waiting"]
    scheduler.set_capacity(1)
    for one in requests[:2]:
        stage.ends(one)
    assert requests[3].state == "waiting"
    stage.ends(requests[2])
    stage.ends(requests[3])
    stage.close(scheduler)


@pytest.mark.parametrize(
    ("floors", "kept"),
    [
        ((0, 0, 0, 0), [0, 0, 0, 0]),
        ((4, 4, 4, 4), [4, 4, 4, 4]),
        ((1000, 0, 0, 0), [16, 0, 0, 0]),
        ((12, 12, 0, 0), [7, 8, 0, 0]),
        ((8, 8, 8, 8), [3, 4, 4, 4]),
        ((32, 128, 7, 0), [6, 6, 3, 0]),
    ],
)
def test_reservations(floors: tuple[int, ...], kept: list[int]) -> None:
    assert reservations([options(reserved_floor=floor) for floor in floors], 16) == kept


def test_reservations_by_share() -> None:
    shares = [options(reserved_per_slot=share, reserved_floor=2) for share in (0, 0.25, 0.1, 0)]
    assert reservations(shares, 64) == [2, 16, 7, 2]


@given(st.lists(st.tuples(st.integers(0, 99), st.floats(0, 2)), min_size=4, max_size=4), st.integers(1, 200))
def test_reservations_never_exceed_what_there_is(asked: list[tuple[int, float]], capacity: int) -> None:
    kept = reservations([options(reserved_floor=f, reserved_per_slot=s) for f, s in asked], capacity)
    assert sum(kept) <= capacity and min(kept) >= 0


def test_what_an_operator_sees(stage: Stage) -> None:
    scheduler = make(stage, 4, system={"reserved_floor": 2})
    come(stage, scheduler, "default", "default", "default")
    shown: Any = scheduler.snapshot()
    assert (shown["in_flight"], shown["limit"], shown["waiting"]) == (2, 4, 1)
    assert shown["classes"]["default"] == {"in_flight": 2, "reserved": 0, "waiting": 1, "queue_size": 9}
    assert list(scheduler.pressures) == [0, 0, 1, 0]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(0, 3)),
        st.tuples(st.just("come"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["end", "leave", "start"]), st.integers(0, 30)),
        st.tuples(st.just("tick"), st.integers(1, 5)),
        st.tuples(st.just("capacity"), st.integers(1, 5)),
    ),
    max_size=50,
)
CLASS = st.builds(
    options,
    reserved_floor=st.integers(0, 3),
    queue_size=st.integers(0, 3),
    queue_timeout_secs=st.integers(4, 12),
    starvation_threshold_secs=st.integers(2, 8),
    can_preempt=st.booleans(),
)


@settings(max_examples=200)
@given(STEPS, st.tuples(CLASS, CLASS, CLASS, CLASS), st.integers(1, 5))
def test_any_history(steps: list[tuple[str, int]], classes: tuple[ClassOptions, ...], capacity: int) -> None:
    stage = Stage()
    file = SchedulerFile(classes=Classes(**dict(zip(CLASSES, classes, strict=True))))
    scheduler = Scheduler(file, "system", 0, capacity, stage.loop)
    plain = Plain(list(classes), capacity)
    requests: list[Request] = []
    for step, number in steps:
        if step == "come":
            requests.append(stage.comes(scheduler, Request(len(requests), CLASSES[number].encode())))
            plain.comes(requests[-1].number, number, stage.loop.now)
        elif step in ("end", "start") and plain.running:
            one = requests[plain.running[number % len(plain.running)][0]]
            if step == "start":
                one.started = True
                plain.started.add(one.number)
            else:
                stage.ends(one)
                plain.ends(one.number, stage.loop.now)
        elif step == "leave" and plain.waiting:
            gone = plain.waiting[number % len(plain.waiting)][0]
            stage.leaves(requests[gone])
            plain.leaves(gone)
        elif step == "tick":
            for _ in range(number):
                stage.pass_time(1)
                plain.tick(stage.loop.now)
        elif step == "capacity":
            plain.capacity = number
            stage.loop.call(lambda number=number: scheduler.set_capacity(number))  # type: ignore[misc]
            plain.hand_out(stage.loop.now)
        for state, numbers in (
            ("running", [one[0] for one in plain.running]),
            ("waiting", [one[0] for one in plain.waiting]),
            ("preempted", plain.preempted),
            ("scheduler_queue_full", plain.refused),
            ("scheduler_queue_timeout", plain.late),
        ):
            assert [one.number for one in requests if one.state == state] == sorted(numbers), state
        assert scheduler.in_flight == sum(scheduler.used) == len(plain.running)
    for one in requests:
        if one.state == "waiting":
            stage.leaves(one)
    for one in requests:
        if one.permit is not None:
            stage.ends(one)
    for one in requests:
        if one.state == "running":
            stage.ends(one)
    stage.close(scheduler)
    stage.shut()
