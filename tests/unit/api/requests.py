"""Short ways to decode a request and to ask what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smg.api.call import Call, decode
from smg.api.surfaces import SURFACES
from smg.errors import GatewayError

_SURFACES = {surface.path: surface for surface in SURFACES}
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
GENERATE = "/generate"
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
PARSING = "Invalid JSON data: Failed to deserialize the JSON body into the target type: "
SYNTAX = "JSON syntax error: Failed to parse the request body as JSON: "


def keep(model: str) -> str:
    return model


def send(path: str, body: Any, aliases: dict[str, str] | None = None) -> Call:
    """Decode a body, given as bytes or as a value."""
    text = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return decode(_SURFACES[path], text, lambda model: (aliases or {}).get(model, model))


def chat(model: str = "m", **fields: Any) -> Call:
    return send(CHAT, {"model": model, "messages": [USER], **fields})


def forwarded(call: Call) -> Any:
    assert call.body is not None
    return json.loads(call.body)


def refusal(path: str, body: Any) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        send(path, body)
    return caught.value


def refused_chat(model: str = "m", **fields: Any) -> str:
    """The message of a request that breaks a range or a rule."""
    error = refusal(CHAT, {"model": model, "messages": [USER], **fields})
    assert (error.status, error.code) == (400, 400)
    return error.message


def unparsed_chat(model: Any = "m", **fields: Any) -> str:
    """The message of a request that does not fit the types, without what all of them begin with."""
    error = refusal(CHAT, {"model": model, "messages": [USER], **fields})
    assert (error.status, error.code) == (400, "json_parse_error")
    assert error.message.startswith(PARSING)
    return error.message.removeprefix(PARSING)
