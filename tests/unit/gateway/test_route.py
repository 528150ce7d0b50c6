"""Leases and the router: what is counted, who may be chosen, and what is forgotten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest

from smg import errors
from smg.config.model import Retry
from smg.errors import GatewayError
from smg.gateway.route import MAX_POLICIES, Lease, Router
from smg.policies.ask import Ask
from smg.policies.choose import Policy
from smg.policies.consistent_hashing import ConsistentHashing
from smg.policies.manual import Pins
from smg.policies.round_robin import RoundRobin
from smg.workers.breaker import State
from smg.workers.overload import Overload
from smg.workers.registry import Registry
from smg.workers.worker import Status, Thresholds, Worker
from tests.clock import Clock
from tests.unit.policies.fleet import call, dice, report, worker
from tests.unit.policies.test_manual import Watcher

NO_HEADERS: dict[bytes, bytes] = {}


class Noting(RoundRobin):
    """Gives every request a ticket, and notes whom it was offered and whom it lost."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[Watcher] = []
        self.offered: list[tuple[Worker, ...]] = []
        self.gone: list[Worker] = []
        self.chooses_nobody = False
        self.breaks = False

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        self.offered.append(tuple(candidates))
        ask.ticket = Watcher()
        self.tickets.append(ask.ticket)
        if self.breaks:
            raise ZeroDivisionError
        return None if self.chooses_nobody else super().choose(candidates, ask)

    def forget(self, worker: Worker) -> None:
        self.gone.append(worker)


class Fleet:
    """A registry, a router over it, and the policies that it made."""

    def __init__(self, make: Callable[[], Policy] = Noting, pins: Pins | None = None, **retry: int) -> None:
        self.registry = Registry()
        self.made: list[Policy] = []

        def note() -> Policy:
            self.made.append(make())
            return self.made[-1]

        self.router = Router(self.registry, note, Retry(**retry), pins=pins)  # type: ignore[arg-type]

    def add(self, *workers: Worker) -> None:
        for one in workers:
            self.registry.add(one)
            self.registry.set_status(one, Status.READY)

    def lease(self, model: str | None = "m", tried: tuple[Worker, ...] = (), **headers: bytes) -> Lease:
        named = {b"x-smg-" + name.replace("_", "-").encode(): value for name, value in headers.items()}
        return self.router.lease(call({"rid": "r_t1"}, model=model), named.get, tried)

    def policy(self, number: int) -> Noting:
        found = self.made[number]
        assert isinstance(found, Noting)
        return found


def code_of(error: pytest.ExceptionInfo[GatewayError]) -> tuple[int, str | int]:
    return error.value.status, error.value.code


def open_breaker(one: Worker, at: float | None = None) -> None:
    for _ in range(10):
        one.breaker.record(False, time.monotonic() if at is None else at)
    assert one.breaker.state is State.OPEN


def test_load_is_held_as_long_as_the_lease() -> None:
    fleet, one = Fleet(), worker(1)
    fleet.add(one)
    with fleet.lease():
        with fleet.lease():
            assert (one.load, one.sent_since_report) == (2, 2)
        assert (one.load, one.sent_since_report) == (1, 1)
    assert (one.load, one.sent_since_report) == (0, 0)


@pytest.mark.parametrize("before", [True, False], ids=["after a report", "before any"])
@pytest.mark.parametrize("lapses", [1, 2])
def test_what_was_sent_before_a_report_is_not_counted_off_after_it(before: bool, lapses: int) -> None:
    """Also when the report lapses meanwhile: then there is none again, as in the beginning."""
    fleet, one = Fleet(), worker(1)
    fleet.add(one)
    if before:
        one.reported(report())
    with fleet.lease():
        for lapse in range(lapses):
            one.reported(report() if lapse == 0 and lapses == 2 else None)
        with fleet.lease():
            assert one.sent_since_report == 1
        assert one.sent_since_report == 0
    assert (one.load, one.sent_since_report) == (0, 0)


@pytest.mark.parametrize("outcome", ["success", "error", "cancel"])
async def test_a_ticket_ends_once(outcome: str) -> None:
    fleet, one = Fleet(), worker(1)
    fleet.add(one)
    entered = asyncio.Event()

    async def attempt() -> None:
        with fleet.lease() as lease:
            entered.set()
            if outcome == "cancel":
                await asyncio.Event().wait()
            if outcome == "error":
                raise ConnectionResetError
            assert lease.on_first_event is not None
            lease.on_first_event(1.0)
            lease.answered(200)

    task = asyncio.create_task(attempt())
    await entered.wait()
    if outcome == "cancel":
        task.cancel()
    await asyncio.wait([task])
    assert not task.cancelled() or outcome == "cancel"
    assert (task.cancelled() or task.exception() is not None) == (outcome != "success")
    (ticket,) = fleet.policy(1).tickets
    assert ticket.heard == (["first", "end"] if outcome == "success" else ["end"])
    assert one.load == 0


def test_a_ticket_of_nobody_ends_too() -> None:
    fleet = Fleet()
    fleet.add(worker(1))
    with fleet.lease():
        pass
    fleet.policy(1).chooses_nobody = True
    with pytest.raises(GatewayError) as error:
        fleet.lease()
    assert code_of(error) == (503, "no_available_workers")
    assert [ticket.heard for ticket in fleet.policy(1).tickets] == [["end"], ["end"]]


def test_a_ticket_of_a_policy_that_breaks_ends_too() -> None:
    fleet = Fleet()
    fleet.add(worker(1))
    with fleet.lease():
        pass
    fleet.policy(1).breaks = True
    with pytest.raises(ZeroDivisionError):
        fleet.lease()
    assert [ticket.heard for ticket in fleet.policy(1).tickets] == [["end"], ["end"]]


def test_a_lease_without_a_ticket_has_nobody_to_tell() -> None:
    fleet = Fleet(RoundRobin)
    fleet.add(worker(1))
    with fleet.lease() as lease:
        assert lease.on_first_event is None


@pytest.mark.parametrize(
    ("status", "again", "failures"),
    [(200, False, 0), (503, False, 1), (500, True, 0), (429, False, 0), (None, False, 0)],
)
def test_what_the_breaker_hears(status: int | None, again: bool, failures: int) -> None:
    fleet, one = Fleet(), worker(1)
    fleet.add(one)
    with fleet.lease(tried=(one,) if again else ()) as lease:
        assert lease.again is again
        if status is not None:
            lease.answered(status)
    assert one.breaker.consecutive_failures == failures


def test_workers_with_open_breakers_have_no_index() -> None:
    fleet = Fleet(lambda: ConsistentHashing(dice()))
    workers = [worker(port) for port in (1, 2, 3)]
    fleet.add(*workers)
    assert fleet.lease(target_worker=b"0").worker is workers[0]
    open_breaker(workers[0])
    assert fleet.lease(target_worker=b"0").worker is workers[1]
    assert fleet.lease(target_worker=b"1").worker is workers[2]
    with pytest.raises(GatewayError) as error:
        fleet.lease(target_worker=b"2")
    assert code_of(error) == (503, "no_available_workers")


def test_a_half_open_breaker_lets_one_probe_through() -> None:
    fleet, one = Fleet(), worker(1)
    fleet.add(one)
    open_breaker(one, at=time.monotonic() - 61)
    with fleet.lease() as probe:
        assert one.breaker.state == 2  # half open
        with pytest.raises(GatewayError) as error:
            fleet.lease()
        assert code_of(error) == (503, "no_available_workers")
        probe.answered(200)
    assert one.breaker.state == 0


def test_a_probe_whose_client_left_frees_the_place() -> None:
    fleet, one = Fleet(), worker(1)
    fleet.add(one)
    open_breaker(one, at=time.monotonic() - 61)
    with fleet.lease():
        pass
    with fleet.lease() as lease:
        assert lease.worker is one


def test_untried_workers_come_first() -> None:
    fleet = Fleet()
    first, second = worker(1), worker(2)
    fleet.add(first, second)
    for _ in range(4):
        assert fleet.lease(tried=(first,)).worker is second
    again = fleet.lease(tried=(first, second))
    assert again.again


def test_who_cannot_serve() -> None:
    fleet = Fleet()
    with pytest.raises(GatewayError) as error:
        fleet.lease("unknown")
    assert code_of(error) == (404, "model_not_found")
    one = worker(1)
    fleet.add(one)
    fleet.registry.set_status(one, Status.NOT_READY)
    with pytest.raises(GatewayError) as error:
        fleet.lease()
    assert code_of(error) == (503, "no_available_workers")


def test_each_model_has_a_policy_of_its_own() -> None:
    fleet = Fleet()
    fleet.add(worker(1, "m"), worker(2, "n"), worker(3, "m", "n"))
    for model in ("m", "n", "m", None):
        fleet.lease(model)
    assert [len(fleet.policy(number).offered) for number in range(3)] == [1, 2, 1]
    assert [len(fleet.policy(number).offered[0]) for number in range(3)] == [3, 2, 2]


def test_the_number_of_policies_is_bounded() -> None:
    fleet = Fleet()
    fleet.add(worker(1, *(f"model-{number}" for number in range(MAX_POLICIES + 5))))
    for number in range(MAX_POLICIES + 5):
        fleet.lease(f"model-{number}")
    assert len(fleet.made) == MAX_POLICIES + 1
    assert len(fleet.policy(0).offered) == 5


def test_a_worker_that_is_gone_is_forgotten_by_all() -> None:
    fleet = Fleet()
    both, only = worker(1, "m", "n"), worker(2, "n")
    fleet.add(both, only)
    fleet.lease("m")
    fleet.lease("n")
    fleet.registry.set_status(both, Status.NOT_READY)
    assert not any(fleet.policy(number).gone for number in range(3))
    fleet.registry.remove(both)
    assert all(fleet.policy(number).gone == [both] for number in range(3))
    fleet.add(worker(3, "m"))
    fleet.lease("m")
    assert len(fleet.made) == 4  # the model was gone with its last worker


def test_sticky_sessions_override_the_policy() -> None:
    fleet = Fleet(pins=Pins(3600, Clock()))
    workers = [worker(port) for port in (1, 2, 3)]
    fleet.add(*workers)
    assert fleet.router.reads_body
    home = fleet.lease(routing_key=b"conv_t1").worker
    assert all(fleet.lease(routing_key=b"conv_t%d_r1" % turn).worker is home for turn in range(5))
    assert fleet.lease(routing_key=b"other").worker is not home
    by_rid = fleet.lease().worker
    assert all(fleet.lease().worker is by_rid for _ in range(4))
    fleet.registry.remove(home)
    assert home in fleet.policy(1).gone
    assert fleet.lease(routing_key=b"conv").worker is not home


def test_sticky_sessions_leave_consistent_hashing_alone() -> None:
    fleet = Fleet(lambda: ConsistentHashing(dice()), pins=Pins(3600, Clock()))
    fleet.add(*(worker(port) for port in (1, 2)))
    first = fleet.lease(routing_key=b"k", target_worker=b"0").worker
    assert fleet.lease(routing_key=b"k", target_worker=b"1").worker is not first


def test_a_token_hint_saves_reading_the_body_unless_sessions_stick() -> None:
    hint = {b"x-smg-routing-tokens": b"1,2"}
    assert Fleet().router.has_hint(hint.get)
    assert not Fleet().router.has_hint(NO_HEADERS.get)
    assert not Fleet(pins=Pins(3600, Clock())).router.has_hint(hint.get)


def test_when_another_attempt_is_made() -> None:
    fleet = Fleet(retry_max_retries=3)
    first, second = worker(1), worker(2)
    fleet.add(first, second)
    request, may = call(None), fleet.router.may_retry
    assert may(errors.Retry.YES, request, 1, (first, second), first)
    assert not may(errors.Retry.YES, request, 3, (), first)
    assert not may(errors.Retry.NO, request, 1, (), first)
    assert may(errors.Retry.OTHER_WORKER, request, 1, (first,), first)
    assert not may(errors.Retry.OTHER_WORKER, request, 1, (first, second), first)
    open_breaker(second)
    assert not may(errors.Retry.OTHER_WORKER, request, 1, (first,), first)
    assert not may(errors.Retry.OTHER_WORKER, call(None, model="unknown"), 1, (), first)


def test_delays_grow_to_their_maximum() -> None:
    router = Fleet(retry_initial_backoff_ms=100, retry_max_backoff_ms=400, retry_jitter_factor=0).router
    at, numbers = worker(1), (1, 2, 3, 9)
    assert [router.delay_s(number, at) for number in numbers] == pytest.approx([0.1, 0.15, 0.225, 0.4])
    steep = Fleet(retry_backoff_multiplier=1000, retry_max_backoff_ms=400, retry_jitter_factor=0).router
    assert steep.delay_s(10_000, worker(1)) == 0.4


def test_a_worker_may_have_retries_of_its_own() -> None:
    fleet = Fleet(retry_max_retries=5, retry_jitter_factor=0)
    few, none, slow = worker(1), worker(2), worker(3)
    few.retries = {"retry_max_retries": 2}
    none.retries = {"disable_retries": True}
    slow.retries = {"retry_initial_backoff_ms": 1000, "retry_max_backoff_ms": 1500}
    fleet.add(few, none, slow)

    def attempts(at: Worker) -> int:
        may = fleet.router.may_retry
        return next(n for n in range(1, 9) if not may(errors.Retry.YES, call(None), n, (at,), at))

    assert [attempts(one) for one in (few, none, slow)] == [2, 1, 5]
    assert [fleet.router.delay_s(number, slow) for number in (1, 2)] == [1.0, 1.5]
    assert fleet.router.delay_s(1, few) == 0.05


def test_workers_out_of_touch_are_spared_while_there_are_others() -> None:
    fleet = Fleet()
    lost, other = worker(1), worker(2)
    fleet.add(lost, other)
    fleet.registry.unreachable.add(lost)
    assert {fleet.lease().worker for _ in range(4)} == {other}
    assert fleet.lease(tried=(other,)).worker is other
    assert not fleet.router.has_untried(call(None), (other,))
    fleet.registry.set_status(other, Status.NOT_READY)
    assert fleet.lease().worker is lost


class Told:
    def __init__(self) -> None:
        self.failed_with: list[Worker] = []

    def failed(self, one: Worker, now: float) -> None:
        self.failed_with.append(one)


def test_who_hears_of_a_worker_and_who_is_told_of_failures() -> None:
    fleet, one, told = Fleet(), worker(1), Told()
    one.contact = told
    fleet.add(one)
    with fleet.lease() as lease:
        lease.failed(unreachable=True)
    assert (told.failed_with, one.heard_at) == ([one], 0)
    with fleet.lease() as lease:
        pass
    with fleet.lease() as lease:
        lease.failed(unreachable=False)
    assert told.failed_with == [one]
    assert one.heard_at > 0
    one.heard_at = 0
    with fleet.lease() as lease:
        lease.answered(503)
    assert one.heard_at > 0


def overloaded(fleet: Fleet, sheds: bool, *waiting: int) -> list[Worker]:
    """Workers that report so many waiting requests."""
    overload = Overload(fleet.registry, sheds, 7)
    fleet.router = Router(fleet.registry, Noting, Retry(), overload=overload)
    workers = [worker(1 + number) for number in range(len(waiting))]
    fleet.add(*workers)
    for one, number in zip(workers, waiting, strict=True):
        one.thresholds = Thresholds(8, 0.8)
        one.reported(report(waiting_requests=number))
        overload.judge(one)
    return workers


def test_the_overloaded_are_spared() -> None:
    fleet = Fleet()
    _busy, free = overloaded(fleet, True, 8, 0)
    assert fleet.lease(tried=(free,)).worker is free
    assert not fleet.router.has_untried(call(None), (free,))
    assert fleet.router.has_untried(call(None), ())


def test_all_overloaded() -> None:
    fleet = Fleet()
    workers = overloaded(fleet, False, 20, 9)
    assert fleet.lease().worker is workers[1]
    fleet = Fleet()
    overloaded(fleet, True, 20, 9)
    with pytest.raises(GatewayError) as error:
        fleet.lease()
    assert code_of(error) == (503, "worker_overload_protection_shed")
    assert error.value.headers == (("Retry-After", "7"),)
    assert error.value.retry is errors.Retry.NO


def test_retries_come_out_of_the_budget() -> None:
    fleet = Fleet(retry_max_retries=5)
    only = worker(1)
    fleet.add(only)
    while fleet.router.may_retry(errors.Retry.YES, call(None), 1, (), only):
        pass
    assert fleet.router.budget.denied == 1
    for _ in range(10):
        fleet.lease()
    granted = 0
    while fleet.router.may_retry(errors.Retry.YES, call(None), 1, (), only):
        granted += 1
    assert granted >= 1  # two are earned, of which some may have faded
