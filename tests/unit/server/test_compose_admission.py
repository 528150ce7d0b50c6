"""What the configuration makes of admission: the limit in numbers, and the workers' slots."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from smg.admission.gate import Gate
from smg.admission.priority import Scheduler
from smg.config.admission import Admission
from smg.config.model import Config
from smg.config.specs import WorkerUrl
from smg.server import compose_admission
from smg.server.compose_admission import concurrency_limit, slots_of
from smg.server.listener import StartError
from smg.workers.breaker import Breaker
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker


def worker(registry: Registry, url: str, slots: str | None) -> Worker:
    labels = {"max_running_requests": slots} if slots is not None else {}
    one = Worker(WorkerUrl.parse(url), Breaker(1, 1, 1.0, 1.0, True), labels=labels)
    registry.add(one)
    registry.set_status(one, Status.READY)
    return one


def guards(registry: Registry | None = None, **options: Any) -> compose_admission.Guards:
    config = Config(admission=Admission(**options))
    return compose_admission.guards(
        config, Registry() if registry is None else registry, asyncio.get_running_loop()
    )


def test_the_limit_in_numbers() -> None:
    cores = os.cpu_count() or 1
    assert concurrency_limit(Admission()) == max(4096, 1024 * cores)
    assert concurrency_limit(Admission(max_concurrent_requests=0)) is None
    assert concurrency_limit(Admission(max_concurrent_requests=7)) == 7


@pytest.mark.parametrize(
    ("labels", "slots"),
    [
        ((), 0),
        (("16",), 16),
        (("16", None), 80),
        (("0",), 64),
        (("many", "-3", "1.5", "", "9" * 30), 320),
    ],
)
def test_slots_of_the_workers(labels: tuple[str | None, ...], slots: int) -> None:
    registry = Registry()
    for number, label in enumerate(labels):
        worker(registry, f"http://w{number}", label)
    assert slots_of(registry) == slots


async def test_the_scheduler_follows_the_workers() -> None:
    registry = Registry()
    made = guards(registry, priority_scheduler_enabled=True, max_concurrent_requests=5)
    scheduler = made.permits
    assert isinstance(scheduler, Scheduler) and scheduler.capacity == 5
    first = worker(registry, "http://a", "8")
    worker(registry, "http://b", None)
    assert scheduler.capacity == 72
    registry.set_status(first, Status.NOT_READY)
    assert scheduler.capacity == 64
    registry.set_status(first, Status.READY)
    registry.remove(first)
    assert scheduler.capacity == 64
    made.close()


async def test_without_workers_or_a_limit_there_is_room() -> None:
    made = guards(priority_scheduler_enabled=True, max_concurrent_requests=0)
    assert isinstance(made.permits, Scheduler) and made.permits.capacity == 4096


async def test_nothing_is_on_by_itself() -> None:
    made = guards()
    assert isinstance(made.permits, Gate) and made.tenants is None and made.spending is None
    assert made.snapshot()["tenants"] is None


async def test_a_file_that_has_changed_since_it_was_checked() -> None:
    for options in (
        {"priority_scheduler_enabled": True, "priority_scheduler_config": "/nowhere"},
        {"tenant_rate_limit_enabled": True, "tenant_rate_limit_config": "/nowhere"},
    ):
        with pytest.raises(StartError, match="/nowhere cannot be read"):
            guards(**options)
