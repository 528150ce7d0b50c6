"""Who is out of touch, and how it is found again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from smg.workers import contact
from smg.workers.contact import Contact
from smg.workers.registry import Registry
from smg.workers.worker import EXTERNAL, Status, Worker
from tests.clock import Clock
from tests.unit.policies.fleet import worker
from tests.waiting import turns, until


class Case:
    """One worker that was heard when the test begins; `healthy` is what its probes say."""

    def __init__(self) -> None:
        self.clock, self.registry = Clock(), Registry()
        self.worker = worker(1)
        self.worker.heard_at = self.clock.now
        self.registry.add(self.worker)
        self.registry.set_status(self.worker, Status.READY)
        self.healthy = False
        self.asked = 0
        self.contact = Contact(self.registry, self._is_healthy, 2, self.clock)

    async def _is_healthy(self, one: Worker) -> bool:
        assert one is self.worker
        self.asked += 1
        return self.healthy

    def fail(self, seconds: float) -> bool:
        """A request fails so long after the last word; is the worker out of touch then?"""
        self.clock.now = self.worker.heard_at + seconds
        self.contact.failed(self.worker, self.clock.now)
        return self.worker in self.registry.unreachable


@pytest.fixture
async def case(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Case]:
    monkeypatch.setattr(contact, "_ASK_AGAIN_S", 0)
    case = Case()
    yield case
    await case.contact.close()
    assert not case.registry.unreachable


async def test_silence_makes_a_failure_count(case: Case) -> None:
    assert not case.fail(1.9)
    assert case.fail(2)


async def test_a_probe_that_is_answered_brings_it_back(case: Case) -> None:
    assert case.fail(5)
    assert case.fail(6)  # it is sought only once
    await until(lambda: case.asked > 3)
    assert case.worker in case.registry.unreachable
    case.healthy = True
    await until(lambda: not case.registry.unreachable)
    assert case.worker.heard_at == case.clock.now
    asked = case.asked
    await turns()
    assert case.asked == asked


async def test_an_answer_to_a_request_brings_it_back(case: Case) -> None:
    assert case.fail(5)
    await until(lambda: case.asked)
    case.worker.heard_at += 5
    await until(lambda: not case.registry.unreachable)


@pytest.mark.parametrize("end", ["status", "removed"])
async def test_who_is_not_routed_to_is_not_sought(case: Case, end: str) -> None:
    assert case.fail(5)
    if end == "status":
        case.registry.set_status(case.worker, Status.NOT_READY)
    else:
        case.registry.set_status(case.worker, Status.DRAINING)
        case.registry.remove(case.worker)
    await until(lambda: not case.registry.unreachable)
    assert not case.fail(50)


async def test_providers_are_not_probed(case: Case) -> None:
    case.worker.runtime = EXTERNAL
    assert not case.fail(100)
