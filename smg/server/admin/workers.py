"""`/workers`: list, add, show, change and remove workers."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from aiohttp import web

from smg import errors
from smg.config.specs import WorkerUrl
from smg.server.deps import Deps, json_answer, read_worker_body
from smg.workers.spec import WorkerSpec, WorkerUpdate
from smg.workers.worker import REGULAR, Status, Worker

DRAIN_TIMEOUT_S = 300.0
# Shown as clients expect it; a worker is tried for as long as --worker-startup-timeout-secs says.
MAX_CONNECTION_ATTEMPTS = 20
MAX_DRAIN_TIMEOUT_S = 3600.0


class WorkerRoutes:
    def __init__(self, deps: Deps) -> None:
        self._registry = deps.registry
        self._registrar = deps.registrar
        self._guarded = deps.guarded

    def routes(self) -> list[web.RouteDef]:
        one = "/workers/{worker_id}"
        return [
            web.get("/workers", self._guarded(self.show_all)),
            web.post("/workers", self._guarded(self.add)),
            web.get(one, self._guarded(self.show)),
            web.put(one, self._guarded(self.replace)),
            web.patch(one, self._guarded(self.change)),
            web.delete(one, self._guarded(self.remove)),
            web.post(one + "/drain", self._guarded(self.drain)),
        ]

    async def show_all(self, request: web.Request) -> web.Response:
        workers = self._registry.all()
        stats = {f"{kind}_count": 0 for kind in ("prefill", "decode", "regular")}
        for worker in workers:
            stats[f"{worker.worker_type}_count"] += 1
        shown = [self._describe(worker) for worker in workers]
        return json_answer({"workers": shown, "total": len(shown), "stats": stats})

    async def add(self, request: web.Request) -> web.Response:
        spec = await read_worker_body(request, WorkerSpec)
        worker = self._registrar.add(spec)
        location = f"/workers/{worker.id}"
        answer = {
            "status": "accepted",
            "worker_id": worker.id,
            "url": worker.url,
            "location": location,
            "message": "Worker addition queued for background processing",
        }
        return json_answer(answer, status=202, headers={"Location": location})

    async def show(self, request: web.Request) -> web.Response:
        return json_answer(self._describe(self._get(request)))

    async def change(self, request: web.Request) -> web.Response:
        worker = self._get(request)
        self._registrar.update(worker, await read_worker_body(request, WorkerUpdate))
        return _accepted(worker, "update")

    async def replace(self, request: web.Request) -> web.Response:
        worker = self._get(request)
        if worker.rank is not None:
            raise errors.bad_worker_request("A data-parallel rank cannot be replaced")
        spec = await read_worker_body(request, WorkerSpec)
        try:
            is_same = WorkerUrl.parse(spec.url) == worker.target
        except ValueError as error:
            raise errors.bad_worker_request(str(error)) from None
        if not is_same:
            raise errors.bad_worker_request("The URL of a worker cannot be changed")
        self._registrar.replace(worker, spec)
        return _accepted(worker, "update")

    async def remove(self, request: web.Request) -> web.Response:
        worker = self._get(request)
        self._registrar.remove(worker)
        return _accepted(worker, "removal")

    async def drain(self, request: web.Request) -> web.Response:
        """Waits, other than `remove`: for a hook that may stop the engine when it is answered with 200."""
        worker = self._get(request)
        left = await self._registrar.drain(worker, _timeout_s(request.query.get("timeout_secs")))
        answer = {
            "status": "draining" if left else "drained",
            "worker_id": worker.id,
            "url": worker.url,
            "in_flight": left,
            "message": "Worker still has requests in flight" if left else "Worker drained and removed",
        }
        return json_answer(answer, status=202 if left else 200)

    def _get(self, request: web.Request) -> Worker:
        text = request.match_info["worker_id"]
        try:
            worker_id = str(uuid.UUID(text))
        except ValueError:
            raise errors.bad_worker_request("The worker ID is not a UUID") from None
        try:
            return self._registry.get(worker_id)
        except KeyError:
            raise errors.worker_not_found(worker_id) from None

    def _describe(self, worker: Worker) -> dict[str, Any]:
        health = worker.health
        shown: dict[str, Any] = {
            "id": worker.id,
            "model_id": worker.model_id,
            "url": worker.url,
            "models": worker.cards,
            "worker_type": worker.worker_type,
            "connection_mode": worker.connection_mode,
            "runtime_type": worker.runtime,
            "labels": worker.labels,
            "priority": worker.priority,
            "cost": worker.cost,
            "health": {
                "timeout_secs": health.timeout_s,
                "check_interval_secs": health.interval_s,
                "success_threshold": health.success_threshold,
                "failure_threshold": health.failure_threshold,
                "disable_health_check": health.disabled,
                "drain_settle_secs": health.drain_settle_s,
            },
            "is_healthy": worker.status is Status.READY,
            "status": worker.status.value,
            "load": worker.load,
            "http2": False,
        }
        shown |= self._given(worker)
        if worker.provider is not None:
            shown["provider"] = worker.provider
        if worker.worker_type != REGULAR:
            handover = msgspec.structs.asdict(worker.handover)
            shown |= {name: value for name, value in handover.items() if value is not None}
            shown["pd_pairing"] = worker.pairing
        if worker.rank is not None:
            shown |= {
                "dp_base_url": worker.base_url,
                "dp_rank": worker.rank.number,
                "dp_size": worker.rank.size,
            }
        job = self._registrar.find_job(worker.id)
        if job is not None:
            shown["job_status"] = job
        return shown

    def _given(self, worker: Worker) -> dict[str, Any]:
        """Of what was asked for, that which is not shown as a state of the worker."""
        spec = self._registrar.spec_of(worker)
        attempts = spec.max_connection_attempts if spec is not None else None
        given: dict[str, Any] = {"max_connection_attempts": attempts or MAX_CONNECTION_ATTEMPTS}
        for name in ("resilience", "overload", "http_pool", "load_monitor_interval_secs"):
            value = getattr(spec, name, None)
            if value is not None:
                given[name] = value
        return given


def _timeout_s(text: str | None) -> float:
    if text is None:
        return DRAIN_TIMEOUT_S
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    if not is_number or int(text) > MAX_DRAIN_TIMEOUT_S:
        most = f"{MAX_DRAIN_TIMEOUT_S:g}"
        raise errors.bad_worker_request(f"timeout_secs must be a whole number from 0 to {most}")
    return float(text)


def _accepted(worker: Worker, what: str) -> web.Response:
    message = f"Worker {what} queued for background processing"
    return json_answer({"status": "accepted", "worker_id": worker.id, "message": message}, status=202)
