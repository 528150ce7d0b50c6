"""The collaborators the aiohttp routes are given, and how they turn them into answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from smg import errors
from smg.admission.identity import Identity
from smg.api.request_id import RequestIds
from smg.server.admin.audit import Audit
from smg.server.admin.auth import AdminGuard
from smg.server.cors import Cors
from smg.workers.engine import EngineClient
from smg.workers.probe import Prober
from smg.workers.register import Registrar
from smg.workers.registry import Registry

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_ADMIN_BODY_BYTES = 1 << 20
BODY_TIMEOUT_S = 30.0
_SHOWN_CHARACTERS = 1024

_REQUEST_ID = web.RequestKey("request_id", str)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deps:
    """`not_ready_reason`: why `/readiness` is to fail although workers are there, e.g. `draining`.

    `data_plane_paths` take POST only; `serve` answers it when the data plane goes through aiohttp.
    """

    registry: Registry
    registrar: Registrar
    client: EngineClient
    identity: Identity
    guard: AdminGuard
    request_ids: RequestIds
    cors: Cors
    version: str
    not_ready_reason: Callable[[], str | None]
    data_plane_paths: tuple[str, ...] = ()
    serve: Handler | None = None
    audit: Audit | None = None

    @property
    def prober(self) -> Prober:
        return self.registrar.prober

    def guarded(self, handler: Handler) -> Handler:
        """`handler` for administrators only; the body is not read before that is known."""

        async def checked(request: web.Request) -> web.StreamResponse:
            authorization = header_bytes(request, "Authorization")
            if self.audit is not None:
                return await self.audit.follow(request, authorization, handler)
            await self.guard.check(authorization)
            return await handler(request)

        return checked


def request_id_of(request: web.Request, request_ids: RequestIds) -> str:
    """The ID of a request, the same however often it is asked for."""
    if _REQUEST_ID not in request:
        request[_REQUEST_ID] = request_ids.choose(
            lambda name: header_bytes(request, name.decode()), request.path
        )
    return request[_REQUEST_ID]


def shown_path(request: web.Request) -> str:
    """The path as it may stand in JSON: no query, no bytes that are not UTF-8, no megabyte."""
    return request.path[:_SHOWN_CHARACTERS].encode("utf-8", "replace").decode()


def header_bytes(request: web.BaseRequest, name: str) -> bytes | None:
    """The first header of a name as it came."""
    value = request.headers.get(name)
    return None if value is None else value.encode("utf-8", "surrogateescape")


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode(content)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def error_answer(error: errors.GatewayError) -> web.Response:
    headers, body = errors.render(error)
    return web.Response(status=error.status, headers=headers, body=body or None)


def has_json_type(request: web.Request) -> bool:
    kind = request.content_type
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def read_body(request: web.Request) -> bytes:
    """The whole body of a request to a route of the control plane."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise errors.request_body_timeout(BODY_TIMEOUT_S) from None
    except (ConnectionError, web.RequestPayloadError, RuntimeError):
        # aiohttp's RuntimeError says that the connection was gone before the body was asked for.
        raise errors.request_body_aborted() from None


async def read_worker_body(request: web.Request, kind: type[T]) -> T:
    """The body of a `/workers` route; raises that API's 400."""
    if not has_json_type(request):
        raise errors.bad_worker_request("Expected request with `Content-Type: application/json`")
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_worker_request(str(error)) from None
    except RecursionError:
        raise errors.bad_worker_request("JSON is nested too deeply") from None
