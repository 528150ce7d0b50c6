"""`GET /openapi.json`: the OpenAPI document of everything on the main port, made when first asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from aiohttp import web

from smg import errors
from smg.api import document
from smg.api.document import JSON, TEXT, Json, reference
from smg.api.surfaces import SURFACES
from smg.server.deps import Deps
from smg.workers.spec import WorkerSpec, WorkerUpdate

Raised = Callable[[], Iterable[errors.GatewayError]]

# Of an engine's answer that is passed on.
ANY = "*/*"

_PARAMETER = re.compile(r"\{(\w+)\}")


class Described(msgspec.Struct, frozen=True):
    """A route that is not of the data plane. `further`: statuses with an answer of the route's own beside
    `status`; `body`: the schema of its request; `query`: names of what its target must say; `is_admin`: it
    needs an administrator's key, `is_keyed`: a client's."""

    summary: str
    tag: str
    status: int = 200
    kind: str = JSON
    further: Mapping[int, str] = {}
    body: str | None = None
    body_is_optional: bool = False
    query: tuple[str, ...] = ()
    is_admin: bool = False
    is_keyed: bool = False
    raised: Raised = tuple


class OpenApi:
    def __init__(self, deps: Deps) -> None:
        self._version = deps.version
        self._document: bytes | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/openapi.json", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        if self._document is None:
            # Takes longer than the loop should wait; made twice when two ask at once, which does no harm.
            loop = asyncio.get_running_loop()
            self._document = await loop.run_in_executor(None, self._make)
        return web.Response(body=self._document, content_type=JSON)

    def _make(self) -> bytes:
        return msgspec.json.encode(make_document(self._version))


def make_document(version: str) -> Json:
    """The whole document, as plain values."""
    paths: Json = {}
    for surface in SURFACES:
        paths.setdefault(surface.path, {})["post"] = document.operation(surface)
    for (method, path), described in ROUTES.items():
        paths.setdefault(path, {})[method] = _operation(method, path, described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "smg",
            "version": version,
            "description": "An inference gateway. GET routes answer HEAD as well.",
        },
        "paths": paths,
        "components": {
            "schemas": document.schemas(WorkerSpec, WorkerUpdate),
            "headers": document.headers(),
            "parameters": document.parameters(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(method: str, path: str, described: Described) -> Json:
    content = {described.kind: {"schema": {"type": "string"} if described.kind == TEXT else {}}}
    told = {described.status: "The answer.", **described.further}
    responses = {str(status): document.answer(text, content) for status, text in told.items()}
    if described.kind == ANY:
        responses["default"] = document.answer("The engine's answer of another status.", content)
    raised = [*_refusals(), *described.raised()] if described.is_admin else [*described.raised()]
    failures = document.error_answers([*raised, errors.internal_error()])
    words = [part.strip("{}").replace(".", "_") for part in path.split("/") if part]
    operation: Json = {
        "operationId": "_".join((method, *words)),
        "summary": described.summary,
        "tags": [described.tag],
        "security": [{}, {"key": []}] if described.is_admin or described.is_keyed else [],
        "responses": responses | failures,
    }
    places = [("path", name) for name in _PARAMETER.findall(path)]
    if places := [*places, *(("query", name) for name in described.query)]:
        operation["parameters"] = [
            {"name": name, "in": place, "required": True, "schema": {"type": "string"}}
            for place, name in places
        ]
    if described.body is not None:
        schema = reference(described.body) if described.body else {"type": "object"}
        operation["requestBody"] = {
            "required": not described.body_is_optional,
            "content": {JSON: {"schema": schema}},
        }
    return operation


# ---- the routes, with an example of each error they may raise


def _refusals() -> Iterator[errors.GatewayError]:
    yield errors.unauthorized("", wrong_key=False)
    yield errors.control_plane_unauthorized(wrong_key=False)
    yield errors.admin_role_required()


def _engine_failures() -> Iterator[errors.GatewayError]:
    yield errors.call_upstream_connection_failed()
    yield errors.no_workers()
    yield errors.call_upstream_timeout(1)


def _scrape_failures() -> Iterator[errors.GatewayError]:
    yield errors.no_engine_metrics()
    yield errors.call_upstream_timeout(1)


def _body_failures() -> Iterator[errors.GatewayError]:
    yield errors.request_body_aborted()
    yield errors.request_body_timeout(1)
    yield errors.request_body_too_large(1)


def _profile_failures() -> Iterator[errors.GatewayError]:
    yield from _body_failures()
    yield errors.json_parse_error("")
    yield errors.unsupported_media_type()


def _addition_failures() -> Iterator[errors.GatewayError]:
    yield from _body_failures()
    yield errors.bad_worker_request("")
    yield errors.worker_already_exists("")
    yield errors.worker_create_in_progress("")
    yield errors.too_many_workers(1)
    yield errors.too_many_jobs(1)


def _worker_failures() -> Iterator[errors.GatewayError]:
    yield errors.bad_worker_request("")
    yield errors.worker_not_found("")


def _change_failures() -> Iterator[errors.GatewayError]:
    yield from _body_failures()
    yield from _worker_failures()


def _realtime_failures() -> Iterator[errors.GatewayError]:
    yield errors.unauthorized("", wrong_key=False)
    yield errors.invalid_tenant_header("", 1)
    yield from errors.no_permit()
    yield errors.model_not_found("")
    yield errors.no_available_workers("")
    yield errors.call_upstream_connection_failed()
    yield errors.realtime_refused(502)


def _socket_failures() -> Iterator[errors.GatewayError]:
    yield from _realtime_failures()
    yield errors.missing_realtime_model()
    yield errors.no_upgrade()
    yield errors.origin_not_allowed()


def _call_failures() -> Iterator[errors.GatewayError]:
    yield from _realtime_failures()
    yield from _body_failures()
    for code in ("missing_model", "missing_sdp", "invalid_sdp", "invalid_session_json"):
        yield errors.invalid_call(code, "")
    yield errors.invalid_call("invalid_content_type", "")
    yield errors.invalid_call("invalid_multipart", "")
    yield errors.webrtc_not_supported()


_WORKER = "/workers/{worker_id}"
_PARTIAL = {206: "Some of the workers failed."}
_NOT_READY = {503: "Not ready, with the reason."}

ROUTES: Mapping[tuple[str, str], Described] = {
    ("get", "/health"): Described("Is the gateway alive?", "probes", kind=TEXT),
    ("get", "/liveness"): Described("Is the gateway alive?", "probes", kind=TEXT),
    ("get", "/readiness"): Described("Can the gateway serve?", "probes", further=_NOT_READY),
    ("get", "/openapi.json"): Described("This document", "probes"),
    ("get", "/health_generate"): Described(
        "Can a worker generate?", "workers", kind=ANY, raised=_engine_failures
    ),
    ("get", "/get_model_info"): Described("A worker's model", "workers", kind=ANY, raised=_engine_failures),
    ("get", "/get_server_info"): Described(
        "A worker's options", "workers", kind=ANY, raised=_engine_failures
    ),
    ("get", "/engine_metrics"): Described(
        "The metrics of all workers, merged", "workers", kind=TEXT, raised=_scrape_failures
    ),
    ("get", "/v1/models"): Described(
        "The models that are served", "models", raised=lambda: [errors.no_models_available()]
    ),
    ("get", "/v1/models/{model}"): Described(
        "One model; its name may contain slashes", "models", raised=lambda: [errors.model_not_found("")]
    ),
    ("get", "/v1/realtime"): Described(
        "A realtime session, by WebSocket",
        "inference",
        101,
        kind=TEXT,
        query=("model",),
        is_keyed=True,
        raised=_socket_failures,
    ),
    ("post", "/v1/realtime/calls"): Described(
        "The offer of a WebRTC call, and its answer; an offer in SDP names the model in the query",
        "inference",
        201,
        kind="application/sdp",
        is_keyed=True,
        raised=_call_failures,
    ),
    ("get", "/console"): Described("A page for people who watch the gateway", "admin", kind="text/html"),
    ("get", "/console/data"): Described("What the page shows", "admin", is_admin=True),
    ("get", "/workers"): Described("Every worker", "admin", is_admin=True),
    ("post", "/workers"): Described(
        "Add a worker",
        "admin",
        202,
        body=WorkerSpec.__name__,
        is_admin=True,
        raised=_addition_failures,
    ),
    ("get", _WORKER): Described("One worker", "admin", is_admin=True, raised=_worker_failures),
    ("put", _WORKER): Described(
        "Replace a worker's options",
        "admin",
        202,
        body=WorkerSpec.__name__,
        is_admin=True,
        raised=_change_failures,
    ),
    ("patch", _WORKER): Described(
        "Change some of a worker's options",
        "admin",
        202,
        body=WorkerUpdate.__name__,
        is_admin=True,
        raised=_change_failures,
    ),
    ("delete", _WORKER): Described("Remove a worker", "admin", 202, is_admin=True, raised=_worker_failures),
    ("post", _WORKER + "/drain"): Described(
        "Remove a worker when it is idle, and wait for that",
        "admin",
        further={202: "It still has requests when the time, `timeout_secs`, is up."},
        is_admin=True,
        raised=_worker_failures,
    ),
    ("post", "/flush_cache"): Described(
        "Empty the workers' caches", "admin", further=_PARTIAL, is_admin=True
    ),
    **{
        ("post", path): Described(
            f"{word} the workers' profilers, or that of the one named by `url`",
            "admin",
            further=_PARTIAL | {404: "No such worker."},
            body="",
            body_is_optional=True,
            is_admin=True,
            raised=_profile_failures,
        )
        for path, word in (("/start_profile", "Start"), ("/stop_profile", "Stop"))
    },
    ("get", "/get_loads"): Described("The workers' loads", "admin", is_admin=True),
    ("get", "/v1/tokenizers"): Described("The tokenizers", "admin", is_admin=True),
    ("post", "/v1/tokenizers"): Described(
        "Not built", "admin", 501, is_admin=True, raised=lambda: [errors.not_implemented("Adding tokenizers")]
    ),
    ("get", "/v1/tokenizers/{name}"): Described("One tokenizer: there is none", "admin", 404, is_admin=True),
    ("delete", "/v1/tokenizers/{name}"): Described("As for get", "admin", 404, is_admin=True),
    **{
        (method, path): Described(
            "Not offered", "admin", 500, is_admin=True, raised=lambda: [errors.wasm_not_offered()]
        )
        for method, path in (("get", "/wasm"), ("post", "/wasm"), ("delete", "/wasm/{module}"))
    },
    ("post", "/heap_profile"): Described(
        "Not offered", "admin", 501, is_admin=True, raised=lambda: [errors.heap_profile_not_built()]
    ),
    **{
        ("post", f"/parse/{what}"): Described(
            f"Take {taken} out of a text",
            "admin",
            further={400: "No such parser."},
            body="",
            is_admin=True,
            raised=lambda: [
                errors.unsupported_media_type(),
                errors.malformed_json(""),
                errors.unprocessable(""),
            ],
        )
        for what, taken in (("reasoning", "the reasoning"), ("function_call", "the tool calls"))
    },
}
