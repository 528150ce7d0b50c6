"""Admin routes that go on to the engines: `/flush_cache`, `/start_profile`, `/stop_profile`."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from smg import errors
from smg.config.specs import WorkerUrl
from smg.server.deps import Deps, has_json_type, json_answer, read_body
from smg.workers.engine import EngineError
from smg.workers.worker import Status, Worker

PARALLEL_CALLS = 32
CALL_TIMEOUT_S = 60.0


class _ProfileTarget(msgspec.Struct):
    url: str | None = None


class Fanout:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._slots = asyncio.Semaphore(PARALLEL_CALLS)

    def routes(self) -> list[web.RouteDef]:
        guarded = self._deps.guarded
        return [
            web.post("/flush_cache", guarded(self.flush_cache)),
            web.post("/start_profile", guarded(self.profile)),
            web.post("/stop_profile", guarded(self.profile)),
        ]

    async def flush_cache(self, request: web.Request) -> web.Response:
        workers = self._engines()
        successful, failed = await self._post_to(workers, "/flush_cache", None)
        answer: dict[str, Any] = {
            "status": "partial_success" if failed else "success",
            "message": _outcome("Cache flush", successful, failed),
            "workers_flushed": len(successful),
            "total_http_workers": len(workers),
            "total_grpc_workers": 0,
            "total_zmq_workers_skipped": 0,
            "total_workers": len(workers),
        }
        if failed:
            answer |= {"successful": successful, "failed": failed}
        return json_answer(answer, status=206 if failed else 200)

    async def profile(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        if body and not has_json_type(request):
            raise errors.unsupported_media_type()
        workers = self._engines()
        target = _target(body)
        if target is not None:
            workers = [worker for worker in workers if target in (worker.base_url, worker.url)]
            if not workers:
                return _no_such_worker()
        successful, failed = await self._post_to(workers, request.path, body or None)
        answer: dict[str, Any] = {
            "status": "partial_success" if failed else "success",
            "message": _outcome("Profile request", successful, failed),
            "workers_profiled": len(successful),
            "total_workers": len(workers),
        }
        if failed:
            answer |= {"successful": successful, "failed": failed}
        return json_answer(answer, status=206 if failed else 200)

    def _engines(self) -> list[Worker]:
        """One worker of each address: ranks of one engine have one cache route and one profiler."""
        gone = (Status.PENDING, Status.DRAINING)
        engines = [w for w in self._deps.registry.all() if not w.is_external and w.status not in gone]
        return list({w.base_url: w for w in reversed(engines)}.values())[::-1]

    async def _post_to(
        self, workers: list[Worker], path: str, body: bytes | None
    ) -> tuple[list[str], list[dict[str, str]]]:
        """URLs of the workers that took it, and the others with their errors."""
        problems = await asyncio.gather(*(self._post(worker, path, body) for worker in workers))
        successful = [
            worker.url for worker, problem in zip(workers, problems, strict=True) if problem is None
        ]
        failed = [
            {"worker": worker.url, "error": problem}
            for worker, problem in zip(workers, problems, strict=True)
            if problem is not None
        ]
        return successful, failed

    async def _post(self, worker: Worker, path: str, body: bytes | None) -> str | None:
        key = self._deps.prober.key_of(worker)
        try:
            async with self._slots:
                url = worker.base_url + path
                answer = await self._deps.client.request("POST", url, key, CALL_TIMEOUT_S, body=body)
        except EngineError as error:
            return str(error)
        return None if answer.is_ok else f"the worker answered {answer.status}"


def _target(body: bytes) -> str | None:
    """The canonical URL a profile request names, if any; what is no worker URL matches none."""
    if not body:
        return None
    try:
        url = msgspec.json.decode(body, type=_ProfileTarget).url
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise errors.json_parse_error(str(error)) from None
    try:
        return None if url is None else str(WorkerUrl.parse(url))
    except ValueError:
        return url or ""


def _no_such_worker() -> web.Response:
    answer = {
        "status": "error",
        "message": "No worker is registered under this URL",
        "workers_profiled": 0,
        "total_workers": 0,
    }
    return json_answer(answer, status=404)


def _outcome(what: str, successful: list[str], failed: list[dict[str, str]]) -> str:
    if not failed:
        return f"{what} succeeded on all {len(successful)} workers"
    return f"{what} succeeded on {len(successful)} workers and failed on {len(failed)}"
