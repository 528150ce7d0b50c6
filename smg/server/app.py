"""The aiohttp application: every route that is not a POST of the data plane.

One middleware turns whatever a route raises into an answer; one signal puts the headers on it that
every answer carries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Middleware

from smg import errors
from smg.api.request_id import RESPONSE_HEADER, RequestIds
from smg.server.admin.fanout import Fanout
from smg.server.admin.loads import LoadRoutes
from smg.server.admin.parsing import ParsingRoutes
from smg.server.admin.workers import WorkerRoutes
from smg.server.cors import Cors
from smg.server.data_plane import ExchangeAnswer, ask_later
from smg.server.deps import MAX_ADMIN_BODY_BYTES, Deps, Handler, error_answer, request_id_of, shown_path
from smg.server.models import ModelRoutes
from smg.server.openapi import OpenApi
from smg.server.public import InfoRoutes, ProbeRoutes
from smg.telemetry import logs

log = logs.get(__name__)


class Part(Protocol):
    """Some routes that belong together."""

    def routes(self) -> list[web.RouteDef]: ...


def build_app(deps: Deps, *further: Part) -> web.Application:
    """Everything on the main port that the fast path leaves to aiohttp; needs a running loop."""
    app = _make_app(deps)
    parts = (ProbeRoutes, InfoRoutes, ModelRoutes, WorkerRoutes, Fanout, LoadRoutes, ParsingRoutes, OpenApi)
    for part in parts:
        app.add_routes(part(deps).routes())
    for one in further:
        app.add_routes(one.routes())
    serve = deps.serve if deps.serve is not None else _not_served
    app.add_routes([web.post(path, serve, expect_handler=ask_later) for path in deps.data_plane_paths])
    return app


def build_probe_app(deps: Deps) -> web.Application:
    """The few routes of the health-check port."""
    app = _make_app(deps)
    app.add_routes(ProbeRoutes(deps).routes())
    return app


def _make_app(deps: Deps) -> web.Application:
    app = web.Application(middlewares=[_answering(deps.cors)], client_max_size=MAX_ADMIN_BODY_BYTES)
    app.on_response_prepare.append(_common_headers(deps.request_ids, deps.cors))
    return app


def _answering(cors: Cors) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if cors.is_on and request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return _preflight(request, cors)
        try:
            return await handler(request)
        except errors.GatewayError as error:
            return error_answer(error)
        except web.HTTPException as refusal:
            return error_answer(_as_gateway_error(request, refusal))
        except Exception as bug:
            log.exception("route failed", bug, method=request.method, path=shown_path(request))
            return error_answer(errors.internal_error())

    return middleware


def _common_headers(
    request_ids: RequestIds, cors: Cors
) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    async def add(request: web.Request, response: web.StreamResponse) -> None:
        if isinstance(response, ExchangeAnswer):
            return
        # What the library is called and which version it has is nobody's business.
        response.headers.popall("Server", None)
        if RESPONSE_HEADER not in response.headers:
            response.headers[RESPONSE_HEADER] = request_id_of(request, request_ids)
        if cors.is_on and "Access-Control-Allow-Origin" not in response.headers:
            for name, value in cors.headers(request.headers.get("Origin")):
                response.headers.add(name, value)

    return add


def _preflight(request: web.Request, cors: Cors) -> web.Response:
    wanted = request.headers.get("Access-Control-Request-Headers")
    return web.Response(headers=cors.preflight(request.headers.get("Origin"), wanted))


def _as_gateway_error(request: web.Request, refusal: web.HTTPException) -> errors.GatewayError:
    """What aiohttp itself refuses, in our words."""
    if isinstance(refusal, web.HTTPMethodNotAllowed):
        allow = ", ".join(sorted(refusal.allowed_methods))
        return errors.method_not_allowed(request.method, shown_path(request), allow)
    if refusal.status == 404:
        return errors.unknown_url(request.method, shown_path(request))
    if refusal.status == 413:
        return errors.request_body_too_large(MAX_ADMIN_BODY_BYTES)
    return errors.malformed_request(refusal.status, refusal.reason)


async def _not_served(request: web.Request) -> web.StreamResponse:
    raise errors.not_implemented(f"POST {shown_path(request)}")
