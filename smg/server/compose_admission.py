"""Builds admission from the configuration, lets aiohttp's routes take part in it, and shows its numbers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from smg._fast.limits import Spread
from smg.admission.budgets import Budgets, LocalBudgets
from smg.admission.gate import Gate
from smg.admission.identity import Identity, Tenant
from smg.admission.limits import Limits
from smg.admission.permits import Permits
from smg.admission.priority import Scheduler
from smg.admission.tenants import Tenants
from smg.config import side_files
from smg.config.admission import CLASSES
from smg.config.admission import Admission as AdmissionOptions
from smg.config.model import Config
from smg.gateway.spend import Spending
from smg.server.deps import header_bytes
from smg.server.listener import StartError
from smg.server.realtime import Admit
from smg.telemetry.metrics import Metrics
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker

SLOTS_LABEL = "max_running_requests"
USUAL_SLOTS = 64
"""What a worker can run at once that does not say."""
PER_CORE = 1024
LEAST_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Guards:
    """What stands between a request and the workers; `tenants` is None when they have no limits."""

    permits: Permits
    tenants: Tenants | None

    @property
    def spending(self) -> Spending | None:
        return Spending(self.tenants) if self.tenants is not None else None

    def snapshot(self) -> Mapping[str, object]:
        """Lines, permits and the tenants nearest to their limits, for the operator's console."""
        tenants = self.tenants.snapshot() if self.tenants is not None else None
        return {"permits": self.permits.snapshot(), "tenants": tenants}

    def close(self) -> None:
        self.permits.close()


def guards(
    config: Config, registry: Registry, loop: asyncio.AbstractEventLoop, budgets: Budgets | None = None
) -> Guards:
    """Raises `StartError` when a file has changed for the worse since the configuration was checked."""
    options = config.admission
    try:
        permits = _scheduler(options, registry, loop) if options.priority_scheduler_enabled else None
        tenants = _tenants(options, budgets or LocalBudgets()) if options.tenant_rate_limit_enabled else None
    except side_files.FileError as problem:
        raise StartError(str(problem)) from None
    return Guards(permits or _gate(options, loop), tenants)


def concurrency_limit(options: AdmissionOptions) -> int | None:
    """None: there is no limit."""
    limit = options.max_concurrent_requests
    if limit < 0:
        return max(LEAST_LIMIT, PER_CORE * (os.cpu_count() or 1))
    return limit or None


def _gate(options: AdmissionOptions, loop: asyncio.AbstractEventLoop) -> Gate:
    return Gate(
        concurrency_limit(options),
        options.queue_size,
        options.queue_timeout_secs,
        loop,
        options.rate_limit_tokens_per_second,
    )


def _scheduler(options: AdmissionOptions, registry: Registry, loop: asyncio.AbstractEventLoop) -> Scheduler:
    without_workers = concurrency_limit(options) or LEAST_LIMIT
    scheduler = Scheduler(
        side_files.read_scheduler(options.priority_scheduler_config),
        options.priority_scheduler_default_max_class,
        options.priority_scheduler_tenant_metric_top_n,
        slots_of(registry) or without_workers,
        loop,
    )
    registry.on_change(lambda change, worker: scheduler.set_capacity(slots_of(registry) or without_workers))
    return scheduler


def _tenants(options: AdmissionOptions, budgets: Budgets) -> Tenants:
    assert options.tenant_rate_limit_config is not None
    file = side_files.read_tenants(options.tenant_rate_limit_config, options.trust_tenant_header)
    return Tenants(Limits(file), budgets)


def slots_of(registry: Registry) -> int:
    """Requests that all ready workers together can run at once."""
    return sum(_slots(worker) for worker in registry.all() if worker.status is Status.READY)


def _slots(worker: Worker) -> int:
    text = worker.labels.get(SLOTS_LABEL, "")
    slots = int(text) if text.isdecimal() and len(text) < 10 else 0
    return slots or USUAL_SLOTS


# ---- requests that aiohttp answers


class _WebHead:
    __slots__ = ("_request",)

    def __init__(self, request: web.Request) -> None:
        self._request = request

    def get(self, name: bytes, /) -> bytes | None:
        return header_bytes(self._request, name.decode())


class WebAsker:
    """A request to a serving route of aiohttp's; nothing can displace it."""

    __slots__ = ("head", "tenant")

    started = True

    def __init__(self, request: web.Request, tenant: Tenant) -> None:
        self.head = _WebHead(request)
        self.tenant = tenant

    def interrupt(self) -> None:
        """Never called: it has `started`."""


def admit(permits: Permits, identity: Identity) -> Admit:
    """Gives a context manager that holds a permit; entering it raises 400, 429 and 503."""

    @asynccontextmanager
    async def hold(request: web.Request, tenant: Tenant) -> AsyncIterator[None]:
        if identity.is_open and identity.tells_strangers_apart:
            tenant = identity.stranger(_WebHead(request).get, lambda: request.remote or None)
        asker = WebAsker(request, tenant)
        permit = permits.take(asker) or await permits.wait(asker)
        try:
            yield
        finally:
            permit.release()

    def begin(request: web.Request, tenant: Tenant) -> AbstractAsyncContextManager[object]:
        return hold(request, tenant)

    return begin


# ---- numbers


def plug_admission(metrics: Metrics, guards: Guards) -> None:
    permits = guards.permits
    plug = metrics.plug
    plug(
        "smg_http_rate_limit_total",
        lambda: [(("allowed",), permits.allowed), (("rejected",), permits.rejected)],
    )
    plug("smg_admission_inflight", lambda: [((), permits.in_flight)])
    if isinstance(permits, Gate):
        line = permits.line
        plug("smg_admission_queue_depth", lambda: [((), len(line))])
        metrics.plug_rows(
            "smg_admission_queue_wait_seconds", Spread.bounds(), lambda: [((), line.waits.row())]
        )
    if isinstance(permits, Scheduler):
        _plug_scheduler(metrics, permits)
    tenants = guards.tenants
    if tenants is not None:
        plug(
            "smg_tenant_requests_total",
            lambda: [(("allowed",), tenants.allowed), (("denied",), tenants.denied)],
        )
        plug("smg_tenant_tokens_total", lambda: [((), tenants.spent)])


def _plug_scheduler(metrics: Metrics, scheduler: Scheduler) -> None:
    plug, lines = metrics.plug, scheduler.lines
    ranked = [((name,), rank) for rank, name in enumerate(CLASSES)]
    plug("smg_scheduler_admit_total", lambda: scheduler.admits.items())
    plug("smg_scheduler_clamp_total", lambda: scheduler.clamps.items())
    plug("smg_scheduler_preemption_total", lambda: scheduler.preemptions.items())
    plug("smg_scheduler_inflight", lambda: [(labels, scheduler.used[rank]) for labels, rank in ranked])
    plug("smg_scheduler_queue_depth", lambda: [(labels, len(lines[rank])) for labels, rank in ranked])
    plug("smg_scheduler_queue_size_limit", lambda: [(labels, lines[rank].size) for labels, rank in ranked])
    plug(
        "smg_scheduler_class_capacity_pressure",
        lambda: [((name,), one) for name, one in zip(CLASSES, scheduler.pressures, strict=True)],
    )
    plug("smg_scheduler_utilization", lambda: [((), scheduler.in_flight / scheduler.capacity)])
    metrics.plug_rows(
        "smg_scheduler_queue_wait_seconds",
        Spread.bounds(),
        lambda: [(labels, lines[rank].waits.row()) for labels, rank in ranked],
    )
