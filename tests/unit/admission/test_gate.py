"""The concurrency limit against a plain list of who runs and who waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smg.admission.gate import Gate
from tests.unit.admission.virtual import Request, Stage

TIMEOUT_S = 10.0


def make(stage: Stage, limit: int | None, size: int, per_second: int | None = None) -> Gate:
    return Gate(limit, size, TIMEOUT_S, stage.loop, per_second)


def test_no_queue(stage: Stage) -> None:
    gate = make(stage, 1, 0)
    first, second = stage.comes(gate, Request(1)), stage.comes(gate, Request(2))
    assert (first.state, second.state) == ("running", "admission_queue_full")
    assert second.error is not None and second.error.status == 429
    assert dict(second.error.headers) == {"Retry-After": "2"}
    assert (gate.allowed, gate.rejected) == (1, 1)
    stage.ends(first)
    stage.close(gate)


def test_first_in_first_out(stage: Stage) -> None:
    gate = make(stage, 1, 3)
    requests = [stage.comes(gate, Request(n)) for n in range(5)]
    assert [one.state for one in requests] == ["running"] + ["waiting"] * 3 + ["admission_queue_full"]
    for n in range(3):
        stage.ends(requests[n])
        assert requests[n + 1].state == "running"
    stage.ends(requests[3])
    assert sum(gate.line.waits.row()[:-1]) == 3
    stage.close(gate)


def test_waiting_too_long(stage: Stage) -> None:
    gate = make(stage, 1, 2)
    first = stage.comes(gate, Request(1))
    early = stage.comes(gate, Request(2))
    stage.pass_time(6)
    late = stage.comes(gate, Request(3))
    stage.pass_time(4)
    assert (early.state, late.state) == ("admission_queue_timeout", "waiting")
    assert early.error is not None and early.error.status == 503
    stage.pass_time(6)
    assert late.state == "admission_queue_timeout"
    stage.ends(first)
    assert stage.comes(gate, Request(4)).state == "running"
    gate.release()
    stage.close(gate)


def test_who_leaves_gives_its_place_to_the_next(stage: Stage) -> None:
    gate = make(stage, 1, 1)
    first, second = stage.comes(gate, Request(1)), stage.comes(gate, Request(2))
    stage.leaves(second)
    assert second.state == "left" and len(gate.line) == 0
    third = stage.comes(gate, Request(3))
    stage.ends(first)
    assert third.state == "running"
    stage.ends(third)
    stage.close(gate)


def test_leaving_in_the_turn_in_which_the_permit_comes(stage: Stage) -> None:
    gate = make(stage, 1, 2)
    first, second, third = (stage.comes(gate, Request(n)) for n in range(3))

    def both() -> None:
        assert first.permit is not None and second.task is not None
        first.permit.release()
        second.task.cancel()

    stage.loop.call(both)
    assert (second.state, third.state, gate.in_flight) == ("left", "running", 1)
    stage.ends(third)
    stage.close(gate)


def test_no_limit(stage: Stage) -> None:
    gate = make(stage, None, 0)
    requests = [stage.comes(gate, Request(n)) for n in range(100)]
    assert gate.in_flight == 100 and gate.snapshot()["limit"] is None
    for one in requests:
        stage.ends(one)
    stage.close(gate)


def test_a_rate_of_requests(stage: Stage) -> None:
    gate = make(stage, 2, 0, per_second=1)
    for _ in range(2):
        stage.ends(stage.comes(gate, Request(1)))
    assert stage.comes(gate, Request(2)).state == "admission_queue_full"
    stage.pass_time(1)
    stage.ends(stage.comes(gate, Request(3)))
    stage.pass_time(100)
    states = [stage.comes(gate, Request(n)).state for n in range(3)]
    assert states == ["running", "running", "admission_queue_full"]
    gate.release()
    gate.release()
    stage.close(gate)


def test_the_line_moves_at_the_rate(stage: Stage) -> None:
    gate = make(stage, 2, 5, per_second=2)
    requests = [stage.comes(gate, Request(n)) for n in range(4)]
    for one in requests[:2]:
        stage.ends(one)
    assert [one.state for one in requests[2:]] == ["waiting"] * 2
    stage.pass_time(0.5)
    assert [one.state for one in requests[2:]] == ["running", "waiting"]
    stage.pass_time(0.5)
    assert requests[3].state == "running"
    for one in requests[2:]:
        stage.ends(one)
    stage.close(gate)


def test_a_rate_without_a_limit_has_bursts_of_a_second(stage: Stage) -> None:
    gate = make(stage, None, 0, per_second=3)
    assert [stage.comes(gate, Request(n)).state for n in range(4)][2:] == ["running", "admission_queue_full"]
    for _ in range(3):
        gate.release()
    stage.close(gate)


STEPS = st.lists(
    st.one_of(
        st.just(("come", 0)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("tick"), st.integers(1, 6)),
    ),
    max_size=60,
)


@given(STEPS, st.integers(1, 3), st.integers(0, 3))
def test_any_history(steps: list[tuple[str, int]], limit: int, size: int) -> None:
    stage = Stage()
    gate = make(stage, limit, size)
    requests: list[Request] = []
    running: list[int] = []
    waiting: list[tuple[int, float]] = []
    refused = late = admitted = 0

    def admit() -> None:
        nonlocal admitted
        while waiting and len(running) < limit:
            running.append(waiting.pop(0)[0])
            admitted += 1

    for step, number in steps:
        if step == "come":
            requests.append(stage.comes(gate, Request(len(requests))))
            if len(running) < limit and not waiting:
                running.append(requests[-1].number)
                admitted += 1
            elif len(waiting) < size:
                waiting.append((requests[-1].number, stage.loop.now))
            else:
                refused += 1
        elif step == "end" and running:
            stage.ends(requests[running.pop(number % len(running))])
        elif step == "leave" and waiting:
            stage.leaves(requests[waiting.pop(number % len(waiting))[0]])
        elif step == "tick":
            stage.pass_time(number)
            before = len(waiting)
            waiting[:] = [one for one in waiting if stage.loop.now - one[1] < TIMEOUT_S]
            late += before - len(waiting)
        admit()
        assert [one.number for one in requests if one.state == "running"] == sorted(running)
        assert [one.number for one in requests if one.state == "waiting"] == [one for one, _ in waiting]
        assert gate.in_flight == len(running) <= limit and len(gate.line) == len(waiting) <= size
        assert (gate.allowed, gate.rejected) == (admitted, refused + late)
    for one, _ in waiting:
        stage.leaves(requests[one])
    for one in running:
        stage.ends(requests[one])
    stage.close(gate)
    stage.shut()
