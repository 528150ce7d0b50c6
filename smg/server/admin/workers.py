"""`/workers`: list, add, show, change and remove workers."""

from __future__ import annotations

import uuid
from typing import Any

from aiohttp import web

from smg import errors
from smg.config.specs import WorkerUrl
from smg.server.deps import Deps, json_answer, read_worker_body
from smg.workers.spec import WorkerSpec, WorkerUpdate
from smg.workers.worker import Status, Worker


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
        if worker.provider is not None:
            shown["provider"] = worker.provider
        job = self._registrar.find_job(worker.id)
        if job is not None:
            shown["job_status"] = job
        return shown


def _accepted(worker: Worker, what: str) -> web.Response:
    message = f"Worker {what} queued for background processing"
    return json_answer({"status": "accepted", "worker_id": worker.id, "message": message}, status=202)
