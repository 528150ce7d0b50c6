"""What is wrong with a request, or with who sends it."""

from __future__ import annotations

from smg.errors.error import GatewayError, Shape, Source

_STEP = 1 << 18


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
    # Step by step: others must not wait until a large body was counted through.
    line, begin = 1, 0
    for at in range(0, position, _STEP):
        end = min(at + _STEP, position)
        line += body.count(b"\n", at, end)
        begin = body.rfind(b"\n", at, end) + 1 or begin
    return f" at line {line} column {position - begin + 1}"


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


def invalid_tenant_header(name: str, most: int) -> GatewayError:
    message = f"The {name} header has more than {most} characters"
    return GatewayError(400, "invalid_tenant_header", message, source=Source.CLIENT)
