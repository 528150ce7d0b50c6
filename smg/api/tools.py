"""Tools, the forms of `tool_choice`, and the rules that bind one to the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

_PREFIX = "Invalid value for 'tool_choice"


class Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: Any = None
    strict: bool | None = None


class Tool(msgspec.Struct):
    type: str
    function: Function


class ChosenName(msgspec.Struct):
    name: str


class NamedChoice(msgspec.Struct, tag_field="type", tag="function"):
    function: ChosenName


class FunctionReference(msgspec.Struct, tag_field="type", tag="function"):
    name: str


class McpReference(msgspec.Struct, tag_field="type", tag="mcp"):
    server_label: str
    name: str | None = None


class FileSearchReference(msgspec.Struct, tag_field="type", tag="file_search"):
    pass


class WebSearchReference(msgspec.Struct, tag_field="type", tag="web_search_preview"):
    pass


class ComputerUseReference(msgspec.Struct, tag_field="type", tag="computer_use_preview"):
    pass


class CodeInterpreterReference(msgspec.Struct, tag_field="type", tag="code_interpreter"):
    pass


class ImageGenerationReference(msgspec.Struct, tag_field="type", tag="image_generation"):
    pass


Reference = (
    FunctionReference
    | McpReference
    | FileSearchReference
    | WebSearchReference
    | ComputerUseReference
    | CodeInterpreterReference
    | ImageGenerationReference
)


class AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """`mode` is `auto` or `required`, which a rule checks."""

    mode: str
    tools: list[Reference]


ToolChoice = Literal["none", "auto", "required"] | NamedChoice | AllowedTools

_decoder: msgspec.json.Decoder[str | NamedChoice | AllowedTools] = msgspec.json.Decoder(
    str | NamedChoice | AllowedTools
)


def read_choice(written: bytes) -> str | NamedChoice | AllowedTools:
    return _decoder.decode(written)


def is_forced(choice: str | NamedChoice | AllowedTools) -> bool:
    """Must the model call a tool?"""
    if isinstance(choice, AllowedTools):
        return choice.mode == "required"
    return choice == "required" or isinstance(choice, NamedChoice)


def choice_problem(
    choice: str | NamedChoice | AllowedTools, has_tools: bool, names: Iterable[str]
) -> str | None:
    """The rule that a choice breaks, None when it is fine. `names` of the tools are only read if needed."""
    if not has_tools:
        if choice in ("none", "auto"):
            return None
        return f"{_PREFIX}': 'tool_choice' is only allowed when 'tools' are specified."
    if isinstance(choice, NamedChoice):
        name = choice.function.name
        return None if name in names else f"{_PREFIX}': function '{name}' not found in 'tools'."
    if isinstance(choice, AllowedTools):
        return _allowed_problem(choice, set(names))
    return None


def _allowed_problem(choice: AllowedTools, known: set[str]) -> str | None:
    if choice.mode not in ("auto", "required"):
        return f"{_PREFIX}.mode': must be 'auto' or 'required', got '{choice.mode}'."
    for one in choice.tools:
        if not isinstance(one, FunctionReference):
            return (
                f"{_PREFIX}.tools': Chat Completion API only supports function tools, got '{_identify(one)}'."
            )
        if one.name not in known:
            return f"{_PREFIX}.tools': tool '{one.name}' not found in 'tools'."
    return None


def _identify(one: Reference) -> str:
    if isinstance(one, McpReference):
        return f"mcp:{one.server_label}" if one.name is None else f"mcp:{one.server_label}:{one.name}"
    return str(type(one).__struct_config__.tag)
