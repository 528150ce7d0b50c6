"""The messages of a chat: one type a role, content parts, and the calls of earlier turns."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class Part(msgspec.Struct):
    """Any object: parts of unknown types, and malformed ones, are the worker's business."""

    type: Any = None


Content = str | list[Part]
NonEmptyContent = Annotated[str, Meta(min_length=1)] | Annotated[list[Part], Meta(min_length=1)]


class CalledFunction(msgspec.Struct):
    name: str
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    id: str
    function: CalledFunction
    type: str | None = None


class SystemMessage(msgspec.Struct, tag_field="role", tag="system"):
    content: Content | None = None
    name: str | None = None
    tools: Any = None


class DeveloperMessage(msgspec.Struct, tag_field="role", tag="developer"):
    content: Content
    name: str | None = None
    tools: Any = None


class UserMessage(msgspec.Struct, tag_field="role", tag="user"):
    content: NonEmptyContent
    name: str | None = None
    tools: Any = None


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant"):
    """`reasoning` is another spelling of `reasoning_content`."""

    content: Content | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tools: Any = None


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool"):
    content: Content
    tool_call_id: str
    tools: Any = None


class FunctionMessage(msgspec.Struct, tag_field="role", tag="function"):
    content: Content
    name: str | None = None
    tools: Any = None


class RootMessage(msgspec.Struct, tag_field="role", tag="root"):
    """MiniMax only; every other profile refuses it by rule."""

    content: Content
    name: str | None = None
    tools: Any = None


Message = (
    SystemMessage
    | DeveloperMessage
    | UserMessage
    | AssistantMessage
    | ToolMessage
    | FunctionMessage
    | RootMessage
)
MESSAGE_TYPES: tuple[type[msgspec.Struct], ...] = (
    SystemMessage,
    DeveloperMessage,
    UserMessage,
    AssistantMessage,
    ToolMessage,
    FunctionMessage,
    RootMessage,
)
