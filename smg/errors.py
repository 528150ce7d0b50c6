"""Every error the gateway itself answers with: one exception, one function per code, one renderer.

The two shapes for serving routes are those of the specification ("Error Responses"); `/workers` has
its own. An error that a worker answered is relayed and never becomes a `GatewayError`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

ERROR_CODE_HEADER = "X-SMG-Error-Code"

# The IANA phrases, except 413 and 422, fixed here so that no Python version changes a body.
REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Payload Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Entity",
    423: "Locked",
    424: "Failed Dependency",
    425: "Too Early",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    451: "Unavailable For Legal Reasons",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
    507: "Insufficient Storage",
    508: "Loop Detected",
    511: "Network Authentication Required",
}


def reason(status: int) -> str:
    """The phrase of a status; a worker may answer with any."""
    return REASONS.get(status, "Unknown")


class Shape(enum.Enum):
    """How the body of an error is written."""

    ENVELOPE = "envelope"
    REQUEST = "request"
    ADMIN = "admin"
    PLAIN = "plain"
    EMPTY = "empty"


class Source(enum.Enum):
    """Who is to blame; metrics and the breaker ask."""

    CLIENT = "client"
    WORKER = "worker"
    GATEWAY = "gateway"


class Retry(enum.Enum):
    """May the request be tried again: never, on an untried worker only, or on any."""

    NO = "no"
    OTHER_WORKER = "other_worker"
    YES = "yes"


RETRYABLE = frozenset({408, 429, 502, 503, 504})
ELSEWHERE = frozenset({500})
"""Statuses that are tried again: on any worker, or only on one that was not tried."""


_LEG_CODES = {
    400: "bad_request",
    404: "not_found",
    500: "internal_error",
    502: "bad_gateway",
    503: "unavailable",
}
_SHOWN_BYTES = 16384
"""How much of a worker's answer a message may hold."""


def retry_of_status(status: int) -> Retry:
    """May a request be tried again after a worker answered `status`?"""
    if status in RETRYABLE:
        return Retry.YES
    return Retry.OTHER_WORKER if status in ELSEWHERE else Retry.NO


class GatewayError(Exception):
    """An answer the gateway gives by itself. `headers` are added to the answer."""

    __slots__ = ("code", "headers", "message", "retry", "shape", "source", "status")

    def __init__(
        self,
        status: int,
        code: str | int,
        message: str,
        shape: Shape = Shape.ENVELOPE,
        source: Source = Source.GATEWAY,
        retry: Retry = Retry.NO,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.shape = shape
        self.source = source
        self.retry = retry
        self.headers = headers


def render(error: GatewayError) -> tuple[list[tuple[str, str]], bytes]:
    """Headers (`Content-Type` and the error's own) and body of an error's answer."""
    headers = list(error.headers)
    if error.shape is Shape.EMPTY:
        return headers, b""
    if error.shape is Shape.PLAIN:
        return [("Content-Type", "text/plain; charset=utf-8"), *headers], error.message.encode()
    if error.shape is Shape.ADMIN:
        admin = msgspec.json.encode({"error": error.message, "code": error.code})
        return [("Content-Type", "application/json"), *headers], admin
    if error.shape is Shape.REQUEST:
        inner: dict[str, object] = {
            "message": error.message,
            "type": "invalid_request_error",
            "code": error.code,
        }
    else:
        inner = {
            "type": reason(error.status),
            "code": error.code,
            "message": error.message,
            "param": None,
        }
        headers.insert(0, (ERROR_CODE_HEADER, str(error.code)))
    return [("Content-Type", "application/json"), *headers], msgspec.json.encode({"error": inner})


def stream_error_frame(message: str) -> bytes:
    """The server-sent event that ends a broken stream of an HTTP worker, without `[DONE]`."""
    body = msgspec.json.encode({"error": {"message": message, "type": "stream_error"}})
    return b"data: " + body + b"\n\n"


# ---- the client's fault


def json_parse_error(message: str) -> GatewayError:
    return GatewayError(400, "json_parse_error", message, Shape.REQUEST, Source.CLIENT)


def json_syntax_error(problem: str, body: bytes, position: int) -> GatewayError:
    message = f"JSON syntax error: Failed to parse the request body as JSON: {problem}"
    return json_parse_error(message + _where(body, position))


def json_mismatch(problem: str, body: bytes, position: int) -> GatewayError:
    """A body that is JSON but does not fit the request's schema at `position`."""
    target = "Failed to deserialize the JSON body into the target type"
    return json_parse_error(f"Invalid JSON data: {target}: {problem}{_where(body, position)}")


def _where(body: bytes, position: int) -> str:
    line = body.count(b"\n", 0, position) + 1
    column = position - (body.rfind(b"\n", 0, position) + 1) + 1
    return f" at line {line} column {column}"


def validation_failed(message: str) -> GatewayError:
    return GatewayError(400, 400, message, Shape.REQUEST, Source.CLIENT)


def missing_content_type() -> GatewayError:
    return json_parse_error("Missing Content-Type: application/json header")


def malformed_form(message: str) -> GatewayError:
    """A form that cannot be read or lacks something; plain text, as SGLang's clients know it."""
    return GatewayError(400, "malformed_form", message, Shape.PLAIN, Source.CLIENT)


def unsupported_decisions_request(message: str) -> GatewayError:
    return GatewayError(400, "unsupported_decisions_request", message, source=Source.CLIENT)


def missing_realtime_model() -> GatewayError:
    message = "Missing required 'model' query parameter"
    return GatewayError(400, "missing_model", message, Shape.PLAIN, Source.CLIENT)


def no_upgrade() -> GatewayError:
    """A realtime session was asked for by plain HTTP."""
    message = "Connect with a WebSocket: the request is no upgrade"
    return GatewayError(400, "no_upgrade", message, Shape.PLAIN, Source.CLIENT)


def origin_not_allowed() -> GatewayError:
    message = "Browsers of this origin may not connect"
    return GatewayError(403, "origin_not_allowed", message, source=Source.CLIENT)


def invalid_call(code: str, message: str) -> GatewayError:
    """A request for a WebRTC call that cannot be read; `code` says what is wrong."""
    return GatewayError(400, code, message, source=Source.CLIENT)


def unprocessable(message: str) -> GatewayError:
    """A body that does not fit `/generate`: plain text, as SGLang's clients know it."""
    return GatewayError(422, "unprocessable", message, Shape.PLAIN, Source.CLIENT)


def unauthorized(realm: str, *, wrong_key: bool) -> GatewayError:
    challenge = f'Bearer realm="{realm}"' + (', error="invalid_token"' if wrong_key else "")
    headers = (("WWW-Authenticate", challenge),)
    return GatewayError(401, "unauthorized", "", Shape.EMPTY, Source.CLIENT, headers=headers)


def control_plane_unauthorized(*, wrong_key: bool) -> GatewayError:
    message = "Invalid authentication token" if wrong_key else "Missing or invalid Authorization header"
    headers = (("WWW-Authenticate", 'Bearer realm="control-plane"'),)
    return GatewayError(401, "unauthorized", message, Shape.PLAIN, Source.CLIENT, headers=headers)


def admin_role_required() -> GatewayError:
    message = "Admin role required for this control plane operation"
    return GatewayError(403, "forbidden", message, Shape.PLAIN, Source.CLIENT)


def bad_worker_request(message: str) -> GatewayError:
    return GatewayError(400, "BAD_REQUEST", message, Shape.ADMIN, Source.CLIENT)


def worker_not_found(worker_id: str) -> GatewayError:
    message = f"Worker {worker_id} not found"
    return GatewayError(404, "WORKER_NOT_FOUND", message, Shape.ADMIN, Source.CLIENT)


def worker_already_exists(url: str) -> GatewayError:
    message = f"Worker {url} already exists"
    return GatewayError(409, "WORKER_ALREADY_EXISTS", message, Shape.ADMIN, Source.CLIENT)


def unsupported_media_type() -> GatewayError:
    message = "Expected request with `Content-Type: application/json`"
    return GatewayError(415, "unsupported_media_type", message, Shape.PLAIN, Source.CLIENT)


def unknown_url(method: str, path: str) -> GatewayError:
    return GatewayError(404, "unknown_url", f"Invalid URL ({method} {path})", source=Source.CLIENT)


def method_not_allowed(method: str, path: str, allow: str) -> GatewayError:
    message = f"Not allowed to {method} on {path}"
    headers = (("Allow", allow),)
    return GatewayError(405, "method_not_allowed", message, source=Source.CLIENT, headers=headers)


def model_not_found(model: str) -> GatewayError:
    return GatewayError(
        404, "model_not_found", f"No worker available for model '{model}'", source=Source.CLIENT
    )


def request_body_too_large(limit_bytes: int) -> GatewayError:
    message = f"The request body exceeds the limit of {limit_bytes} bytes"
    return GatewayError(413, "request_body_too_large", message, source=Source.CLIENT)


def request_body_stalled(stall_s: float) -> GatewayError:
    message = f"No byte of the request body arrived for {stall_s:g} seconds"
    return GatewayError(408, "request_body_stalled", message, source=Source.CLIENT)


def request_body_timeout(timeout_s: float) -> GatewayError:
    message = f"The request body was not complete after {timeout_s:g} seconds"
    return GatewayError(408, "request_body_timeout", message, source=Source.CLIENT)


def request_body_aborted() -> GatewayError:
    return GatewayError(400, "request_body_aborted", "The request body ended early", source=Source.CLIENT)


def malformed_request(status: int, message: str) -> GatewayError:
    """The bytes are no request by RFC 9112; the connection is closed after the answer."""
    return GatewayError(status, "malformed_request", message, source=Source.CLIENT)


# ---- the workers' fault


def no_available_workers(model: str) -> GatewayError:
    message = f"No available workers for model '{model}'" if model else "No available workers"
    return GatewayError(503, "no_available_workers", message, headers=(("Retry-After", "1"),))


def no_compatible_pd_pair(model: str) -> GatewayError:
    message = f"No prefill and decode worker for model '{model}' have the same runtime and KV connector"
    return GatewayError(503, "no_compatible_pd_pair", message)


def leg_failed(
    leg: str, status: int, answer: bytes, headers: tuple[tuple[str, str], ...] = ()
) -> GatewayError:
    """A worker of a prefill/decode pair answered `status`; `leg` is `prefill` or `decode`."""
    message = answer[:_SHOWN_BYTES].decode("utf-8", "replace")
    if leg == "prefill":
        message = f"The prefill worker answered {status}: {message}"
    told = status if status >= 400 else 502
    retry = retry_of_status(status)
    code = f"{leg}_{_LEG_CODES.get(status, 'error')}"
    return GatewayError(told, code, message, source=Source.WORKER, retry=retry, headers=headers)


def pd_prefill_queue_full() -> GatewayError:
    message = "All prefill workers are busy and no more requests may wait for them"
    return GatewayError(429, "pd_prefill_queue_full", message)


def pd_prefill_queue_timeout(timeout_s: float) -> GatewayError:
    message = f"No prefill worker became free within {timeout_s:g} seconds"
    return GatewayError(429, "pd_prefill_queue_timeout", message)


def no_pair() -> Iterator[GatewayError]:
    """What a model of prefill/decode pairs answers besides."""
    yield no_compatible_pd_pair("m")
    for leg in ("prefill", "decode"):
        for status in (400, 401, 404, 500, 502, 503):
            yield leg_failed(leg, status, b"")
    yield pd_prefill_queue_full()
    yield pd_prefill_queue_timeout(1)


def no_workers() -> GatewayError:
    return GatewayError(503, "no_workers", "No healthy worker is registered")


def worker_overload_protection_shed(model: str, retry_after_s: int) -> GatewayError:
    message = f"All workers for model '{model}' are overloaded" if model else "All workers are overloaded"
    headers = (("Retry-After", str(retry_after_s)),)
    return GatewayError(503, "worker_overload_protection_shed", message, headers=headers)


def dp_aware_not_supported(what: str) -> GatewayError:
    message = f"{what} is not supported by workers with data-parallel ranks"
    return GatewayError(400, "dp_aware_not_supported", message)


def call_upstream_connection_failed(retry: Retry = Retry.YES) -> GatewayError:
    message = "The worker could not be reached"
    return GatewayError(502, "call_upstream_connection_failed", message, source=Source.WORKER, retry=retry)


def call_upstream_request_error(
    message: str = "The worker closed the connection before it answered",
) -> GatewayError:
    return GatewayError(502, "call_upstream_request_error", message, source=Source.WORKER, retry=Retry.YES)


def read_response_body_failed() -> GatewayError:
    message = "The worker's answer broke off"
    return GatewayError(502, "read_response_body_failed", message, source=Source.WORKER, retry=Retry.YES)


def call_upstream_timeout(timeout_s: float) -> GatewayError:
    message = f"The worker did not answer within {timeout_s:g} seconds"
    return GatewayError(504, "call_upstream_timeout", message, source=Source.WORKER, retry=Retry.YES)


def upstream_response_too_large(limit_bytes: int) -> GatewayError:
    message = f"The worker's answer exceeds the limit of {limit_bytes} bytes"
    return GatewayError(502, "upstream_response_too_large", message, source=Source.WORKER)


def invalid_decisions_response(message: str) -> GatewayError:
    return GatewayError(502, "invalid_decisions_response", message, source=Source.WORKER, retry=Retry.YES)


def upstream_decisions_error(
    status: int, message: str, headers: tuple[tuple[str, str], ...] = ()
) -> GatewayError:
    """A worker's error whose body is not of OpenAI's shape; `headers` are the worker's."""
    return GatewayError(
        status,
        "upstream_decisions_error",
        message,
        source=Source.WORKER,
        retry=retry_of_status(status),
        headers=headers,
    )


def realtime_refused(status: int) -> GatewayError:
    """A worker answered the upgrade with something else; its refusals of the client are passed on."""
    told = status if 400 <= status < 500 else 502
    message = f"The worker refused the realtime session with status {status}"
    return GatewayError(
        told, "realtime_refused", message, source=Source.WORKER, retry=retry_of_status(status)
    )


def no_engine_metrics() -> GatewayError:
    return GatewayError(503, "no_available_workers", "No available workers", Shape.PLAIN)


def no_models_available() -> GatewayError:
    return GatewayError(503, "no_models_available", "No models available", Shape.PLAIN)


# ---- the gateway's own


def too_many_workers(limit: int) -> GatewayError:
    message = f"No more than {limit} workers can be registered"
    return GatewayError(503, "TOO_MANY_WORKERS", message, Shape.ADMIN)


def not_implemented(feature: str) -> GatewayError:
    return GatewayError(501, "not_implemented", f"{feature} is not supported by this gateway")


def not_for_pairs(endpoint: str) -> GatewayError:
    """The model has prefill/decode workers only, which do not serve this endpoint."""
    return GatewayError(501, "not_implemented", f"{endpoint.capitalize()} not implemented", Shape.PLAIN)


def decisions_not_supported() -> GatewayError:
    message = "Decisions is supported by regular HTTP and SGLang gRPC routers"
    return GatewayError(501, "decisions_not_supported", message)


def transcriptions_not_supported() -> GatewayError:
    message = "Audio transcriptions not implemented"
    return GatewayError(501, "transcriptions_not_supported", message, Shape.PLAIN)


def webrtc_not_supported() -> GatewayError:
    message = "WebRTC calls need the extra `webrtc` of this gateway; connect to GET /v1/realtime by WebSocket"
    return GatewayError(501, "webrtc_not_supported", message)


def upload_not_stored() -> GatewayError:
    return GatewayError(500, "upload_not_stored", "The uploaded file could not be stored")


def internal_error() -> GatewayError:
    return GatewayError(500, "internal_error", "The gateway failed to handle the request")


_BACK_OFF = (("Retry-After", "2"),)


def invalid_tenant_header(name: str, most: int) -> GatewayError:
    message = f"The {name} header has more than {most} characters"
    return GatewayError(400, "invalid_tenant_header", message, source=Source.CLIENT)


def admission_queue_full(may_wait: bool) -> GatewayError:
    """`may_wait`: there is a queue, and it is full."""
    message = (
        "The concurrency limit is reached, and the queue is full"
        if may_wait
        else "The concurrency limit is reached, and requests may not wait"
    )
    return GatewayError(429, "admission_queue_full", message, headers=_BACK_OFF)


def admission_queue_timeout() -> GatewayError:
    message = "The request waited too long for its turn"
    return GatewayError(503, "admission_queue_timeout", message, headers=_BACK_OFF)


def scheduler_queue_full(name: str) -> GatewayError:
    message = f"The queue of the priority class {name} is full"
    return GatewayError(429, "scheduler_queue_full", message, headers=_BACK_OFF)


def scheduler_queue_timeout(name: str) -> GatewayError:
    message = f"The request waited too long in the queue of the priority class {name}"
    return GatewayError(503, "scheduler_queue_timeout", message, headers=_BACK_OFF)


def scheduler_preempted() -> GatewayError:
    message = "The request gave way to one of a higher priority class before it had an answer"
    headers = (("Retry-After", "1"), ("X-SMG-Preempted", "true"))
    return GatewayError(503, "scheduler_preempted", message, headers=headers)


def tenant_rate_limit_exceeded(wait_s: int | None) -> GatewayError:
    """`wait_s`: until the tenant's budget can pay for it; None when it never can."""
    message = (
        "The request costs more than the tenant's rate limit can ever allow"
        if wait_s is None
        else "The tenant's rate limit is exceeded"
    )
    headers = () if wait_s is None else (("Retry-After", str(wait_s)),)
    return GatewayError(429, "tenant_rate_limit_exceeded", message, headers=headers)


def shutting_down() -> GatewayError:
    message = "The gateway is shutting down"
    return GatewayError(503, "shutting_down", message, headers=(("Retry-After", "1"),))


def no_permit() -> Iterator[GatewayError]:
    """One example of every error that says that a request may not be at work now."""
    yield admission_queue_full(may_wait=True)
    yield admission_queue_timeout()
    yield scheduler_queue_full("default")
    yield scheduler_queue_timeout("default")


def table() -> Iterator[GatewayError]:
    """One example of every error above, for docs/errors.md and its test."""
    yield json_parse_error("…")
    yield validation_failed("…")
    yield malformed_form("…")
    yield unsupported_decisions_request("…")
    yield unprocessable("…")
    yield missing_realtime_model()
    yield no_upgrade()
    yield origin_not_allowed()
    for code in ("missing_model", "missing_sdp", "invalid_sdp", "invalid_session_json"):
        yield invalid_call(code, "…")
    yield invalid_call("invalid_content_type", "…")
    yield invalid_call("invalid_multipart", "…")
    yield unauthorized("data-plane", wrong_key=False)
    yield control_plane_unauthorized(wrong_key=False)
    yield admin_role_required()
    yield bad_worker_request("…")
    yield worker_not_found("…")
    yield worker_already_exists("…")
    yield unsupported_media_type()
    yield unknown_url("GET", "/x")
    yield method_not_allowed("GET", "/v1/chat/completions", "POST")
    yield model_not_found("m")
    yield request_body_too_large(1)
    yield request_body_stalled(1)
    yield request_body_timeout(1)
    yield request_body_aborted()
    yield malformed_request(400, "…")
    yield no_available_workers("m")
    yield worker_overload_protection_shed("m", 10)
    yield dp_aware_not_supported("Transcription")
    yield from no_pair()
    yield no_workers()
    yield call_upstream_connection_failed()
    yield call_upstream_request_error()
    yield read_response_body_failed()
    yield call_upstream_timeout(1)
    yield upstream_response_too_large(1)
    yield invalid_decisions_response("…")
    yield upstream_decisions_error(400, "…")
    yield realtime_refused(502)
    yield no_engine_metrics()
    yield no_models_available()
    yield too_many_workers(1)
    yield not_implemented("…")
    yield decisions_not_supported()
    yield transcriptions_not_supported()
    yield webrtc_not_supported()
    yield upload_not_stored()
    yield internal_error()
    yield invalid_tenant_header("x", 1)
    yield from no_permit()
    yield scheduler_preempted()
    yield tenant_rate_limit_exceeded(1)
    yield shutting_down()
