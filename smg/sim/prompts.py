"""Request bodies of the generating endpoints, and the prompts in them.

Only the fields that change the answer are modelled; engines ignore what they do not know.
"""

from __future__ import annotations

import array
from typing import Annotated, Any

import msgspec

MAX_CHOICES = 128
_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)]
_Tokens = Annotated[int, msgspec.Meta(ge=0)]


class Refused(Exception):
    """The engine answers `status` with an error in its own shape."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = False


class Message(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None
    tool_calls: Any = None


class _Sampling(msgspec.Struct, kw_only=True):
    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: _Tokens | None = None
    min_tokens: _Tokens | None = 0
    n: _Count | None = 1
    stop: str | list[str] | None = None
    seed: int | None = None
    ignore_eos: bool | None = False


class Chat(_Sampling, kw_only=True):
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: _Tokens | None = None
    tools: Any = None


class Completion(_Sampling, kw_only=True):
    prompt: str | list[Any]
    echo: bool | None = False


class GenerateSampling(msgspec.Struct, kw_only=True):
    max_new_tokens: _Tokens | None = 128
    min_new_tokens: _Tokens | None = 0
    n: _Count | None = 1
    stop: str | list[str] | None = None
    sampling_seed: int | None = None
    ignore_eos: bool | None = False


class Generate(msgspec.Struct, kw_only=True):
    text: str | list[str] | None = None
    input_ids: list[Any] | None = None
    sampling_params: GenerateSampling | None = None
    stream: bool | None = False
    rid: str | list[str] | None = None


def chat_prompt(call: Chat) -> bytes:
    """The messages as a template would write them, open for the assistant's turn."""
    parts: list[bytes] = []
    if call.tools:
        parts.append(b"<|tools|>\n" + msgspec.json.encode(call.tools) + b"\n")
    for message in call.messages:
        parts.append(f"<|{message.role}|>\n".encode() + _content(message.content))
        if message.tool_calls:
            parts.append(msgspec.json.encode(message.tool_calls))
        parts.append(b"\n")
    parts.append(b"<|assistant|>\n")
    return b"".join(parts)


def _content(content: str | list[Any] | None) -> bytes:
    if content is None:
        return b""
    if isinstance(content, str):
        return content.encode()
    parts = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        parts.append(text.encode() if isinstance(text, str) else msgspec.json.encode(part))
    return b"".join(parts)


def listed(prompt: str | list[Any], param: str) -> list[bytes]:
    """The prompts of a text, texts, token IDs or lists of token IDs."""
    if isinstance(prompt, str):
        return [prompt.encode()]
    if not prompt:
        raise Refused(400, f"{param} must not be empty", param)
    if all(isinstance(one, str) for one in prompt):
        return [one.encode() for one in prompt]
    if all(isinstance(one, int) for one in prompt):
        return [_ids(prompt, param)]
    if all(isinstance(one, list) and one for one in prompt):
        return [_ids(one, param) for one in prompt]
    raise Refused(400, f"{param} must be text, texts, token IDs or lists of token IDs", param)


def _ids(ids: list[Any], param: str) -> bytes:
    """Token IDs as bytes, four for each."""
    try:
        return array.array("I", ids).tobytes()
    except (TypeError, OverflowError):
        raise Refused(400, f"{param} holds something that is no token ID", param) from None


def stops(stop: str | list[str] | None) -> list[str]:
    found = [stop] if isinstance(stop, str) else list(stop or [])
    return [one for one in found if one]
