"""The types of a chat request and its contract."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from smg.api import contract
from smg.api.fields import Anything, Positive, Sampling
from smg.api.messages import (
    AssistantMessage,
    DeveloperMessage,
    FunctionMessage,
    Message,
    Part,
    RootMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from smg.api.tools import Tool, ToolChoice

# What the check tells of the messages: marks, each a bit.
ROOT_MESSAGE = 1 << 1
REASONING_ALIAS = 1 << 2
TOOL_CALLS = 1 << 3
TOOL_CALL_ID = 1 << 4
FILE_PART = 1 << 5
# Tools on messages: of roles that may declare them where any may, of roles that may not, of those in between.
DECLARED_TOOLS = 1 << 6
REFUSED_TOOLS = 1 << 7
RESULT_TOOLS = 1 << 8
ROOT_TOOLS = 1 << 9


class JsonSchema(msgspec.Struct):
    """A rule checks that `name` is not empty and `schema` is an object."""

    name: str
    schema: Any
    strict: bool | None = None


class TextFormat(msgspec.Struct, tag_field="type", tag="text"):
    pass


class JsonObjectFormat(msgspec.Struct, tag_field="type", tag="json_object"):
    pass


class JsonSchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema"):
    json_schema: JsonSchema


class Thinking(msgspec.Struct):
    type: Literal["enabled", "disabled", "adaptive"] | None = None
    effort: str | None = None
    keep: str | None = None
    clear_thinking: bool | None = None


class ChatRequest(Sampling, kw_only=True):
    """`POST /v1/chat/completions`. Further members are kept and go to the worker as they are."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Positive | None = None
    max_tokens: Positive | None = None
    n: Annotated[int, Meta(ge=1, le=10)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: TextFormat | JsonObjectFormat | JsonSchemaFormat | None = None
    reasoning_effort: str | float | None = None
    thinking: Thinking | None = None
    continue_final_message: bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    chat_template_kwargs: Anything | None = None
    functions: list[Anything] | None = None
    function_call: str | Anything | None = None


def _word_messages(text: bytes, start: int, end: int, item: int) -> str:
    if item < 0:
        shortest = "Expected an array with minimum length 1"
        return f"Invalid 'messages': empty array. {shortest}, but got an empty array instead."
    return f"Invalid 'messages[{item}].content': the content of a user message must not be empty."


CHAT = contract.Contract(
    ChatRequest,
    marks={
        (RootMessage, None): (ROOT_MESSAGE, None),
        (SystemMessage, "tools"): (DECLARED_TOOLS, None),
        (DeveloperMessage, "tools"): (DECLARED_TOOLS, None),
        (UserMessage, "tools"): (REFUSED_TOOLS, None),
        (AssistantMessage, "tools"): (REFUSED_TOOLS, None),
        (ToolMessage, "tools"): (RESULT_TOOLS, None),
        (FunctionMessage, "tools"): (RESULT_TOOLS, None),
        (RootMessage, "tools"): (ROOT_TOOLS, None),
        (AssistantMessage, "reasoning"): (REASONING_ALIAS, None),
        (AssistantMessage, "tool_calls"): (TOOL_CALLS, None),
        (ToolMessage, "tool_call_id"): (TOOL_CALL_ID, None),
        (Part, "type"): (FILE_PART, b'"file_url"'),
    },
    aliases={(AssistantMessage, "reasoning"): "reasoning_content"},
    wordings={
        "messages": _word_messages,
        "stop": contract.word_stop,
        "top_p": contract.word_top_p,
        "top_k": contract.word_top_k,
    },
)
