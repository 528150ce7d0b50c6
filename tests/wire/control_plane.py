"""A control plane on a loopback port, wired as the composition root does it, for tests."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from smg.admission.identity import Identity
from smg.api.request_id import RequestIds
from smg.config import model
from smg.config.specs import ControlPlaneKey, WorkerUrl
from smg.server.admin.audit import Audit
from smg.server.admin.auth import AdminGuard
from smg.server.admin.tokens import Tokens
from smg.server.app import build_app
from smg.server.cors import Cors
from smg.server.deps import Deps, request_id_of
from smg.workers.engine import EngineClient, open_session
from smg.workers.register import Registrar
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker
from tests.waiting import until


class FakeBackend:
    def __init__(self) -> None:
        self.closed = False

    async def forward(self, x: Any, call: Any, lease: Any) -> bool:
        return True

    def tune(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Plane:
    """`http` talks to the control plane; the rest are its parts."""

    def __init__(self, deps: Deps, http: TestClient[web.Request, web.Application]) -> None:
        self.deps = deps
        self.registry = deps.registry
        self.registrar = deps.registrar
        self.http = http

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and JSON, or text, of a GET."""
        return await self.ask("GET", path, headers=headers)

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        async with self.http.request(method, path, **options) as response:
            if response.content_type == "application/json":
                return response.status, await response.json()
            return response.status, await response.text()

    async def ready(self, count: int) -> None:
        await until(lambda: self.registry.ready_count == count)

    def worker(self, url: str) -> Worker:
        worker = self.registry.find_url(url)
        assert worker is not None
        return worker


@asynccontextmanager
async def control_plane(
    *urls: str,
    backend: str = "sglang",
    api_key: str | None = None,
    tenants: tuple[tuple[str, str], ...] = (),
    admins: tuple[str, ...] = (),
    cors: tuple[str, ...] = (),
    aliases: dict[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    reason: Callable[[], str | None] = lambda: None,
    tokens: Callable[[aiohttp.ClientSession], Tokens] | None = None,
    audited: bool = False,
    serve: Any = None,
    drain_limit_s: float = 20,
    **workers: Any,
) -> AsyncIterator[Plane]:
    registry = Registry(aliases, attach=lambda worker: FakeBackend())
    session = open_session()
    client = EngineClient(session, tls)
    options = model.Workers(
        worker_urls=tuple(WorkerUrl.parse(url) for url in urls), backend=backend, **workers
    )
    registrar = Registrar(
        registry, client, options, model.Breaker(), api_key, retry_step_s=0.02, drain_limit_s=drain_limit_s
    )
    identity = Identity(api_key, tenants)
    guard = AdminGuard(
        identity,
        [ControlPlaneKey.parse(text) for text in admins],
        tokens(session) if tokens is not None else None,
    )
    request_ids = RequestIds()
    deps = Deps(
        registry=registry,
        registrar=registrar,
        client=client,
        identity=identity,
        guard=guard,
        request_ids=request_ids,
        cors=Cors(cors),
        version="1.2.3",
        not_ready_reason=reason,
        data_plane_paths=("/v1/chat/completions", "/generate"),
        serve=serve,
        audit=Audit(guard, lambda request: request_id_of(request, request_ids)) if audited else None,
    )
    registrar.add_configured()
    try:
        async with TestClient(TestServer(build_app(deps))) as http:
            yield Plane(deps, http)
    finally:
        await registrar.close()
        await session.close()


def statuses(plane: Plane) -> list[Status]:
    return [worker.status for worker in plane.registry.all()]
