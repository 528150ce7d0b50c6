"""Tools, the forms of `tool_choice`, and the rules that bind one to the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from smg._fast.jsonnames import Names
from smg._fast.jsonspan import Members, elements, members_at, text_of

_PREFIX = "Invalid value for 'tool_choice"


class Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
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


LONGEST = 64 * 1024
"""Bytes of a name as written. No tool is looked for under a longer one: it is cut, and so not found."""

_LONGEST_SHOWN = 64


class Allowed:
    """A choice of some tools, which are read one after the other: there may be very many."""

    def __init__(self, text: bytes, found: Members) -> None:
        self.mode: str = _text_in(found, b"mode")
        self._text = text
        self._start = (found.span(b"tools") or (0, 0))[0]

    def __iter__(self) -> Iterator[Reference]:
        for start, end in elements(self._text, self._start):
            if end - start <= LONGEST:
                yield _reference.decode(self._text[start:end])
            else:
                found = members_at(self._text, start)
                texts = {one: _text_in(found, one.encode()) for one in _TEXTS if one.encode() in found}
                yield _reference.decode(msgspec.json.encode(texts))


Choice = str | NamedChoice | Allowed

_TEXTS = ("type", "name", "server_label")
_reference: msgspec.json.Decoder[Reference] = msgspec.json.Decoder(Reference)
_simple: msgspec.json.Decoder[str | NamedChoice] = msgspec.json.Decoder(str | NamedChoice)


def read_choice(text: bytes, start: int, end: int) -> Choice:
    """A choice that has been checked, at a span of a text."""
    if text[start] == ord("{"):
        found = members_at(text, start)
        if _text_in(found, b"type") == "allowed_tools":
            return Allowed(text, found)
        if end - start > LONGEST:
            function = members_at(text, (found.span(b"function") or (0, 0))[0])
            return NamedChoice(ChosenName(_text_in(function, b"name")))
    return _simple.decode(text[start:end])


def _text_in(found: Members, name: bytes) -> str:
    """A member that is a string, cut when it is long; empty when it is null."""
    start, end = found.span(name) or (0, 0)
    if end - start > LONGEST:
        return found.text[start + 1 : start + _LONGEST_SHOWN].decode(errors="replace") + "…"
    return msgspec.json.decode(found.text[start:end]) or ""


def is_forced(choice: Choice) -> bool:
    """Must the model call a tool?"""
    if isinstance(choice, Allowed):
        return choice.mode == "required"
    return choice == "required" or isinstance(choice, NamedChoice)


def choice_problem(
    choice: Choice, text: bytes, has_tools: bool, names: Iterable[tuple[int, int] | None]
) -> str | None:
    """The rule that a choice breaks, None when it is fine. `names`: where in `text` the names of the tools
    stand, None for a tool that has none; they are only read if needed."""
    if not has_tools:
        if choice in ("none", "auto"):
            return None
        return f"{_PREFIX}': 'tool_choice' is only allowed when 'tools' are specified."
    if isinstance(choice, NamedChoice):
        name = choice.function.name
        wanted = name.encode()
        if any(span is not None and text_of(text, *span) == wanted for span in names):
            return None
        return f"{_PREFIX}': function '{name}' not found in 'tools'."
    if isinstance(choice, Allowed):
        known = Names(text)
        for span in names:
            if span is not None:
                known.add(*span)
        return _allowed_problem(choice, known)
    return None


def _allowed_problem(choice: Allowed, known: Names) -> str | None:
    if choice.mode not in ("auto", "required"):
        return f"{_PREFIX}.mode': must be 'auto' or 'required', got '{choice.mode}'."
    for one in choice:
        if not isinstance(one, FunctionReference):
            return (
                f"{_PREFIX}.tools': Chat Completion API only supports function tools, got '{_identify(one)}'."
            )
        if one.name.encode() not in known:
            return f"{_PREFIX}.tools': tool '{one.name}' not found in 'tools'."
    return None


def _identify(one: Reference) -> str:
    if isinstance(one, McpReference):
        return f"mcp:{one.server_label}" if one.name is None else f"mcp:{one.server_label}:{one.name}"
    return str(type(one).__struct_config__.tag)
