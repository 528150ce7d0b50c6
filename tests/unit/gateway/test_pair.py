"""The router of pairs: which two are taken together, what is counted, and who has to wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from smg import errors
from smg.config.model import Retry
from smg.errors import GatewayError
from smg.gateway.pair import Legs, PairLease, PairRouter, has_room_to_decode
from smg.gateway.route import Lease, Router
from smg.gateway.turns import Turns
from smg.policies.ask import Ask
from smg.policies.round_robin import RoundRobin
from smg.workers.registry import Registry
from smg.workers.worker import DECODE, PREFILL, Handover, Status, Worker
from tests.unit.policies.fleet import call, report, worker
from tests.waiting import turns

TOKENS = {b"x-smg-routing-tokens": b"1,2,3"}


class Pairs:
    """Prefill and decode workers of the model `m`, named by the ports 1… and 101…"""

    def __init__(self, prefills: int = 1, decodes: int = 1, limit: int | None = None) -> None:
        self.registry = Registry()
        self.prefill_router = Router(self.registry, RoundRobin, Retry())
        turns = Turns(10, 30, errors.pd_prefill_queue_full, errors.pd_prefill_queue_full)
        legs = Legs(self.prefill_router, Router(self.registry, RoundRobin, Retry()), limit, turns, turns)
        self.router = PairRouter(self.registry, RoundRobin, Retry(), legs)
        self.prefills = [self.add(worker(1 + n), PREFILL) for n in range(prefills)]
        self.decodes = [self.add(worker(101 + n), DECODE) for n in range(decodes)]

    def add(self, one: Worker, kind: str, runtime: str = "sglang", connector: str | None = None) -> Worker:
        one.worker_type = kind
        one.runtime = runtime
        one.handover = Handover(kv_connector=connector)
        self.registry.add(one)
        self.registry.set_status(one, Status.READY)
        return one

    def lease(self, endpoint: str = "chat", model: str | None = "m", *tried: Worker) -> Lease:
        return self.router.lease(call({}, endpoint, model), TOKENS.get, tried)

    def pair(self, *tried: Worker) -> PairLease:
        found = self.lease("chat", "m", *tried)
        assert isinstance(found, PairLease)
        return found

    def refusal(self, endpoint: str = "chat", model: str | None = "m") -> tuple[int, str | int]:
        with pytest.raises(GatewayError) as refused:
            self.lease(endpoint, model)
        return refused.value.status, refused.value.code


def test_both_are_counted_as_long_as_they_work() -> None:
    pairs = Pairs()
    with pairs.pair() as lease:
        assert (lease.prefill.worker, lease.worker) == (pairs.prefills[0], pairs.decodes[0])
        assert (pairs.prefills[0].load, pairs.decodes[0].load) == (1, 1)
        lease.end_prefill()
        lease.end_prefill()
        assert (pairs.prefills[0].load, pairs.decodes[0].load) == (0, 1)
    assert (pairs.prefills[0].load, pairs.decodes[0].load) == (0, 0)


def test_each_half_goes_by_its_own_policy() -> None:
    pairs = Pairs(2, 3)
    chosen = []
    for _ in range(6):
        with pairs.pair() as lease:
            chosen.append((lease.prefill.worker.target.port, lease.worker.target.port))
    assert [a for a, _ in chosen] == [1, 2] * 3 and [b for _, b in chosen] == [101, 102, 103] * 2


def test_bodies_are_always_read_and_hints_never() -> None:
    router = Pairs().router
    assert router.reads_body and not router.has_hint(TOKENS.get)


def test_halves_match_by_engine_and_connector() -> None:
    pairs = Pairs(0, 0)
    nixl = pairs.add(worker(1), PREFILL, "vllm", "NixlConnector")
    assert nixl.pairing == "vllm/nixl/?"
    for port, runtime, connector in [(102, "sglang", None), (103, "vllm", "Other")]:
        pairs.add(worker(port), DECODE, runtime, connector)
    assert pairs.refusal() == (503, "no_compatible_pd_pair")
    silent = pairs.add(worker(101), DECODE, "vllm", None)
    assert all(pairs.pair().worker is silent for _ in range(4))
    fitting = pairs.add(worker(104), DECODE, "vllm", "NixlConnector")
    assert all(pairs.pair().worker is fitting for _ in range(4))


def test_what_sglang_workers_say_of_connectors_is_no_matter() -> None:
    pairs = Pairs(0, 0)
    prefill = pairs.add(worker(1), PREFILL, "sglang", "NixlConnector")
    decode = pairs.add(worker(101), DECODE, "sglang", "MooncakeConnector")
    assert prefill.pairing == decode.pairing == "sglang/?/?"
    assert pairs.pair().worker is decode


def test_a_prefill_worker_whose_partners_are_shut_off_is_not_taken() -> None:
    pairs = Pairs()
    pairs.add(worker(2), PREFILL, "vllm")
    other = pairs.add(worker(102), DECODE, "vllm")
    for _ in range(10):
        other.breaker.record(False, time.monotonic())
    assert all(pairs.pair().prefill.worker is pairs.prefills[0] for _ in range(4))
    for _ in range(10):
        pairs.decodes[0].breaker.record(False, time.monotonic())
    assert pairs.refusal() == (503, "no_available_workers")


def test_when_no_decode_worker_can_be_had_the_prefill_worker_is_given_back() -> None:
    pairs = Pairs()
    prefill = pairs.prefills[0]
    for _ in range(10):
        prefill.breaker.record(False, time.monotonic() - 61)
    with pytest.raises(GatewayError):
        pairs.router.legs.decode = Router(pairs.registry, _Nobody, Retry())
        pairs.lease()
    # It was the one probe of a half-open breaker.
    assert prefill.load == 0 and prefill.breaker.would_allow(time.monotonic())


class _Broken(RoundRobin):
    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        raise ZeroDivisionError


def test_when_a_policy_breaks_the_prefill_worker_is_given_back() -> None:
    pairs = Pairs()
    for _ in range(5):
        pairs.prefills[0].breaker.record(False, time.monotonic() - 1000)
    pairs.router.legs.decode = Router(pairs.registry, _Broken, Retry())
    with pytest.raises(ZeroDivisionError):
        pairs.lease()
    assert pairs.prefills[0].load == 0 and pairs.prefills[0].breaker.would_allow(time.monotonic())


async def test_who_can_be_asked_decides_who_has_to_wait() -> None:
    """A free prefill worker whose partner is shut off is no reason to go on, and be refused."""
    pairs = Pairs(1, 1, limit=1)
    pairs.add(worker(2), PREFILL, "vllm")
    other = pairs.add(worker(102), DECODE, "vllm")
    for _ in range(10):
        other.breaker.record(False, time.monotonic())
    lease = pairs.pair()
    with lease:
        waiting = asyncio.create_task(pairs.router.turn(call({}, "chat", "m")))
        await turns()
        assert pairs.router.legs.prefill_turns.waiting == 1
    await waiting
    with pairs.pair() as lease:
        assert lease.prefill.worker is pairs.prefills[0]


class _Nobody(RoundRobin):
    def choose(self, candidates: object, ask: object) -> None:  # type: ignore[override]
        return None


def test_what_failed_is_avoided() -> None:
    pairs = Pairs(2, 2)
    lease = pairs.pair()
    assert lease.add_to(()) == (lease.worker,)
    lease.blame_prefill()
    tried = lease.add_to(())
    assert tried == (lease.prefill.worker,) and lease.add_to(tried) is tried
    assert all(pairs.pair(*tried).prefill.worker is not tried[0] for _ in range(4))
    assert pairs.router.has_untried(call({}), tuple(pairs.prefills[:1]))
    assert not pairs.router.has_untried(call({}), tuple(pairs.prefills))
    assert not pairs.router.has_untried(call({}), tuple(pairs.decodes))


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        *((one, "not_implemented") for one in ("embeddings", "classify", "score")),
        ("transcriptions", "transcriptions_not_supported"),
        ("decisions", "decisions_not_supported"),
    ],
)
def test_what_pairs_do_not_serve(endpoint: str, code: str) -> None:
    """Whatever the model, as long as there is nobody but pairs."""
    pairs = Pairs()
    assert pairs.refusal(endpoint) == pairs.refusal(endpoint, "other") == (501, code)
    assert Pairs(0, 0).refusal(endpoint, "other") == (501, code)
    regular = worker(2, "regular")
    pairs.registry.add(regular)
    pairs.registry.set_status(regular, Status.READY)
    assert pairs.refusal(endpoint) == (501, code)
    assert pairs.refusal(endpoint, "other") == (404, "model_not_found")


def test_nobody() -> None:
    assert Pairs().refusal(model="other") == (404, "model_not_found")
    assert Pairs(1, 0).refusal() == (503, "no_available_workers")
    assert Pairs(0, 1).refusal(model=None) == (503, "no_available_workers")


def test_whole_workers_serve_their_models_as_ever() -> None:
    pairs = Pairs()
    whole = worker(201, "whole")
    pairs.registry.add(whole)
    pairs.registry.set_status(whole, Status.READY)
    with pairs.lease("embeddings", "whole") as lease:
        assert lease.worker is whole and not isinstance(lease, PairLease)
    assert pairs.router.has_untried(call({}, model="whole"), ())
    assert not pairs.router.has_untried(call({}, model="whole"), (whole,))


def test_a_plain_router_leaves_halves_alone() -> None:
    pairs = Pairs()
    with pytest.raises(GatewayError) as refused:
        Router(pairs.registry, RoundRobin, Retry()).lease(call({}), TOKENS.get)
    assert refused.value.code == "no_available_workers"


async def test_the_limit_of_prefill_workers() -> None:
    pairs = Pairs(2, 1, limit=1)
    with pairs.pair() as first:
        await pairs.router.turn(call({}))
        with pairs.pair() as second:
            assert {first.prefill.worker, second.prefill.worker} == set(pairs.prefills)
            assert pairs.refusal() == (429, "pd_prefill_queue_full")
            second.end_prefill()
            await pairs.router.turn(call({}))
    await pairs.router.turn(call({}, model="other"))
    await pairs.router.turn(call({}, "embeddings"))


def test_a_decode_window() -> None:
    one = worker(1)
    assert has_room_to_decode(one)
    one.reported(report(running_requests=4), [{"dp_rank": 0, "max_running_requests": 4.0}])
    assert not has_room_to_decode(one)
    one.reported(report(running_requests=3), [{"dp_rank": 0, "max_running_requests": 4.0}])
    assert has_room_to_decode(one)
    one.sent_since_report = 1
    assert not has_room_to_decode(one)
    one.reported(report(running_requests=99), [{"dp_rank": 0}])
    assert has_room_to_decode(one)


async def test_a_full_window_is_waited_for() -> None:
    pairs = Pairs(1, 2)
    rows = [{"dp_rank": 0, "max_running_requests": 1.0}]
    pairs.decodes[0].reported(report(running_requests=1), rows)
    await pairs.router.turn(call({}))
    assert all(pairs.pair().worker is pairs.decodes[1] for _ in range(4))
    pairs.decodes[1].reported(report(), rows)
    with pairs.pair():
        pairs.router.legs.decode_turns._timeout_s = 0
        with pytest.raises(GatewayError):
            await pairs.router.turn(call({}))
    await pairs.router.turn(call({}))
