"""What the gateway reads of a request's body: that it is JSON, whom it is for, and whether it streams."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from smg import errors
from smg._fast.jsonspan import JsonError, Members, members
from smg.api.surfaces import Surface

_SYNTAX = "JSON syntax error: Failed to parse the request body as JSON: "
_TYPES = "Invalid JSON data: Failed to deserialize the JSON body into the target type: "


class Call:
    """The decoded, checked request. `model` is canonical, None when the request names none.

    `body` is what the worker gets, None when it is passed on unread (an opaque call).
    """

    __slots__ = ("body", "model", "stream", "surface")

    def __init__(self, surface: Surface, model: str | None, stream: bool, body: bytes | None) -> None:
        self.surface = surface
        self.model = model
        self.stream = stream
        self.body = body


def is_json_type(content_type: bytes | None) -> bool:
    """Is it `application/json` or `application/*+json`, with any parameters and in any case?"""
    if content_type is None:
        return False
    if content_type == b"application/json":
        return True
    kind = content_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))


def decode(surface: Surface, body: bytes, resolve: Callable[[str], str]) -> Call:
    """Check the body and read the call from it; `resolve` gives a model's canonical name. Raises 400 (422 for `/generate` bodies that do not fit)."""
    try:
        found = members(body)
    except JsonError as error:
        raise errors.json_parse_error(f"{_SYNTAX}{error}{_where(body, error.position)}") from None
    if found is None:
        raise _misfit(surface, "invalid type: the body must be a JSON object", body, 0)
    model = _text(surface, found, b"model")
    if model is None and surface.needs_model:
        raise _misfit(surface, "missing field `model`", body, len(body))
    canonical = resolve(model) if model is not None else None
    if canonical is not None and canonical != model:
        body = found.replace(b"model", msgspec.json.encode(canonical))
        model = canonical
    return Call(surface, model, _flag(surface, found, b"stream"), body)


def _text(surface: Surface, found: Members, name: bytes) -> str | None:
    """A member that must be a text; None when it is absent (null counts so where it is optional)."""
    raw = found.raw(name)
    if raw is None or (raw == b"null" and not surface.needs_model):
        return None
    if not raw.startswith(b'"'):
        raise _misfit(
            surface, f"{name.decode()}: invalid type, expected a string", found.text, _start(found, name)
        )
    text: str = msgspec.json.decode(raw)
    return text


def _flag(surface: Surface, found: Members, name: bytes) -> bool:
    raw = found.raw(name)
    if raw is None or raw == b"null" or raw == b"false":
        return False
    if raw != b"true":
        raise _misfit(
            surface, f"{name.decode()}: invalid type, expected a boolean", found.text, _start(found, name)
        )
    return True


def _start(found: Members, name: bytes) -> int:
    span = found.span(name)
    return span[0] if span else 0


def _misfit(surface: Surface, problem: str, body: bytes, position: int) -> errors.GatewayError:
    message = f"{_TYPES}{problem}{_where(body, position)}"
    if surface.endpoint == "generate":
        return errors.unprocessable(message)
    return errors.json_parse_error(message)


def _where(body: bytes, position: int) -> str:
    line = body.count(b"\n", 0, position) + 1
    column = position - (body.rfind(b"\n", 0, position) + 1) + 1
    return f" at line {line} column {column}"
