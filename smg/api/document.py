"""The parts of the OpenAPI document that come from the contract: schemas of requests and errors, headers,
and the operations of the data plane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from smg import errors
from smg.api import decisions_schema
from smg.api.chat_request import ChatRequest
from smg.api.completions import CompletionRequest
from smg.api.generate import GenerateRequest
from smg.api.plain import NamedRequest, PlainRequest
from smg.api.realtime import ClientSecret, RealtimeSession, TranscriptionSession
from smg.api.surfaces import PAIRED, Surface

Json = dict[str, Any]

SCHEMAS = "#/components/schemas/"
JSON, FORM, EVENTS, TEXT = "application/json", "multipart/form-data", "text/event-stream", "text/plain"

_DECISIONS = "Decisions"
# By endpoint, or by path where an endpoint has several.
_REQUESTS: Mapping[str, str] = {
    "chat": ChatRequest.__name__,
    "completions": CompletionRequest.__name__,
    "generate": GenerateRequest.__name__,
    "decisions": _DECISIONS + decisions_schema.Request.__name__,
    "transcriptions": "TranscriptionForm",
    "/v1/realtime/sessions": RealtimeSession.__name__,
    "/v1/realtime/transcription_sessions": TranscriptionSession.__name__,
    "/v1/realtime/client_secrets": ClientSecret.__name__,
}
_RULED = ("chat", "completions", "decisions", "realtime")
_ERROR_SHAPES = {
    errors.Shape.ENVELOPE: (JSON, "ErrorEnvelope"),
    errors.Shape.REQUEST: (JSON, "RequestError"),
    errors.Shape.ADMIN: (JSON, "AdminError"),
    errors.Shape.PLAIN: (TEXT, "PlainError"),
}


def reference(name: str) -> Json:
    """A schema of the components by its name."""
    return {"$ref": SCHEMAS + name}


# ---- components


def schemas(*further: type[msgspec.Struct]) -> Json:
    """Every schema by its name: the requests' types, `further` ones, and the errors."""
    plain = [ChatRequest, CompletionRequest, GenerateRequest, NamedRequest, PlainRequest, *further]
    plain += [RealtimeSession, TranscriptionSession, ClientSecret]
    _, found = msgspec.json.schema_components(plain, ref_template=SCHEMAS + "{name}")
    prefixed = SCHEMAS + _DECISIONS + "{name}"
    _, own = msgspec.json.schema_components([decisions_schema.Request], ref_template=prefixed)
    found |= {_DECISIONS + name: schema for name, schema in own.items()}
    return found | {"TranscriptionForm": _transcription_form()} | _error_schemas()


def _transcription_form() -> Json:
    text = {"type": "string"}
    granularity = {"type": "string", "enum": ["word", "segment"]}
    return {
        "title": "TranscriptionForm",
        "type": "object",
        "properties": {
            "file": {"type": "string", "contentMediaType": "application/octet-stream"},
            "model": {"type": "string", "minLength": 1},
            "language": text,
            "prompt": text,
            "response_format": text,
            "temperature": {"type": "number", "minimum": 0, "maximum": 1},
            "timestamp_granularities[]": {"type": "array", "items": granularity},
            "stream": {"type": "string", "enum": ["true", "false", "1", "0"]},
        },
        "required": ["file", "model"],
    }


def _error_schemas() -> Json:
    text = {"type": "string"}
    code = {"anyOf": [{"const": 400}, {"const": "json_parse_error"}]}
    envelope = {"type": text, "code": text, "message": text, "param": {"type": "null"}}
    request = {"message": text, "type": {"const": "invalid_request_error"}, "code": code}
    return {
        "ErrorEnvelope": _object({"error": _object(envelope)}),
        "RequestError": _object({"error": _object(request)}),
        "AdminError": _object({"error": text, "code": text}),
        "PlainError": text,
    }


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def headers() -> Json:
    """Headers of answers, by the names of their components."""
    told = {
        "RequestId": "The ID of the request, received or generated.",
        "RoutedWorker": "The URL of the worker that served the request.",
        "ErrorCode": "The value of `error.code`: the gateway itself made this error.",
        "RetryAfter": "Seconds to wait before the request is sent again.",
    }
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in told.items()}


def parameters() -> Json:
    """Headers of requests to workers, by the names of their components."""
    told = {
        "RequestId": ("X-Request-ID", "An ID of the caller's own, for correlation in logs."),
        "RoutingKey": ("X-SMG-Routing-Key", "What sticky sessions and key-based policies go by."),
        "RoutingTokens": ("X-SMG-Routing-Tokens", "The prompt's first token IDs, as a routing hint."),
        "TargetWorker": ("X-SMG-Target-Worker", "The index of a worker, for `consistent_hashing`."),
    }
    return {
        name: {"name": header, "in": "header", "description": text, "schema": {"type": "string"}}
        for name, (header, text) in told.items()
    }


# ---- answers


def answer(description: str, content: Json | None = None, *named: str) -> Json:
    """A response: `content` by media type, `named` the further headers as `Header=Component`."""
    told = dict(one.split("=") for one in ("x-request-id=RequestId", *named))
    response: Json = {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{part}"} for name, part in told.items()},
    }
    if content is not None:
        response["content"] = content
    return response


def error_answers(raised: Iterable[errors.GatewayError]) -> Json:
    """A response for each status: the codes told in its description, the shapes as its schemas."""
    by_status: dict[int, list[errors.GatewayError]] = {}
    for error in raised:
        by_status.setdefault(error.status, []).append(error)
    return {str(status): _error_answer(status, found) for status, found in sorted(by_status.items())}


def _error_answer(status: int, found: list[errors.GatewayError]) -> Json:
    content: dict[str, list[Json]] = {}
    headers: dict[str, None] = {}
    for error in found:
        if error.shape in _ERROR_SHAPES:
            kind, name = _ERROR_SHAPES[error.shape]
            schema = reference(name)
            if schema not in content.setdefault(kind, []):
                content[kind].append(schema)
        if error.shape is errors.Shape.ENVELOPE:
            headers[f"{errors.ERROR_CODE_HEADER}=ErrorCode"] = None
        if any(name == "Retry-After" for name, _ in error.headers):
            headers["Retry-After=RetryAfter"] = None
    codes = ", ".join(f"`{code}`" for code in dict.fromkeys(str(error.code) for error in found))
    described = {kind: {"schema": _any_of(several)} for kind, several in content.items()}
    return answer(f"{errors.reason(status)}: {codes}", described or None, *headers)


def _any_of(several: list[Json]) -> Json:
    return several[0] if len(several) == 1 else {"anyOf": several}


# ---- the data plane


def operation(surface: Surface) -> Json:
    """The POST of one endpoint."""
    kind = FORM if surface.takes_form else JSON
    worker: Json = {JSON: {"schema": {}}}
    if surface.endpoint not in ("decisions", "realtime"):
        worker[EVENTS] = {"schema": {"type": "string"}}
    routed = "x-smg-routed-worker-id=RoutedWorker"
    return {
        "operationId": "post" + "".join(f"_{part}" for part in surface.path.split("/") if part),
        "summary": f"Relayed to a worker that serves the model: {surface.endpoint}",
        "tags": ["inference"],
        "security": [{}, {"key": []}],
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in parameters()],
        "requestBody": {"required": True, "content": {kind: {"schema": _request_schema(surface)}}},
        "responses": {
            "200": answer("The worker's answer.", worker, routed),
            **error_answers(_raised(surface)),
            "default": answer("An error of the worker, as it sent it.", {JSON: {"schema": {}}}, routed),
        },
    }


def _request_schema(surface: Surface) -> Json:
    fallback = NamedRequest if surface.needs_model else PlainRequest
    name = _REQUESTS.get(surface.path) or _REQUESTS.get(surface.endpoint, fallback.__name__)
    schema = reference(name)
    if surface.needs is None:
        return schema
    return {"allOf": [schema, {"required": [surface.needs.decode()]}]}


def _raised(surface: Surface) -> Iterator[errors.GatewayError]:
    """An example of each error that the gateway itself may answer."""
    if surface.takes_form:
        yield errors.malformed_form("")
        yield errors.upload_not_stored()
        yield errors.dp_aware_not_supported("")
    else:
        yield errors.missing_content_type()
    if surface.endpoint in _RULED:
        yield errors.validation_failed("")
    if surface.endpoint == "generate":
        yield errors.unprocessable("")
    if surface.endpoint == "decisions":
        yield errors.unsupported_decisions_request("")
        yield errors.invalid_decisions_response("")
    if surface.not_external is not None:
        yield surface.not_external()
    yield errors.malformed_request(400, "")
    yield errors.request_body_aborted()
    yield errors.unauthorized("", wrong_key=False)
    yield errors.invalid_tenant_header("", 1)
    yield from errors.no_permit()
    yield errors.scheduler_preempted()
    yield errors.tenant_rate_limit_exceeded(1)
    yield errors.model_not_found("")
    yield errors.request_body_stalled(1)
    yield errors.request_body_timeout(1)
    yield errors.request_body_too_large(1)
    yield errors.internal_error()
    yield errors.call_upstream_connection_failed()
    yield errors.call_upstream_request_error()
    yield errors.read_response_body_failed()
    yield errors.upstream_response_too_large(1)
    yield errors.no_available_workers("")
    yield errors.worker_overload_protection_shed("", 1)
    yield errors.shutting_down()
    if surface.endpoint in PAIRED:
        yield from errors.no_pair()
    yield errors.call_upstream_timeout(1)
