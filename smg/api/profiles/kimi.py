"""Kimi: tools declared on messages, usage in streams; Kimi K3 fixes the sampling values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from smg._fast.jsonnames import Names
from smg._fast.jsonspan import Members, elements, members_at
from smg.api.chat_request import DECLARED_TOOLS, REFUSED_TOOLS, RESULT_TOOLS, ROOT_TOOLS
from smg.api.contract import Contract, as_single
from smg.api.draft import NULL, Draft
from smg.api.profiles.profile import (
    Effort,
    Profile,
    function_name_span,
    objects_at,
    text_at,
)
from smg.api.tools import Tool

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_TOOL = Contract(Tool)


class Kimi(Profile):
    marker = "kimi|moonshot"
    has_message_tools = True

    def problems(self, draft: Draft) -> Iterator[str]:
        if not draft.found.marked & (DECLARED_TOOLS | REFUSED_TOOLS):
            return
        names = Names(draft.text)
        for tool in objects_at(draft.text, draft.start("tools")) if draft.has("tools") else ():
            span = function_name_span(tool)
            if span is not None:
                names.add(*span)
        for kind, index, holder, *_, start, _ in draft.found.marks(DECLARED_TOOLS | REFUSED_TOOLS):
            message = members_at(draft.text, holder)
            subject = f"'tools' on a message with role '{text_at(draft.text, message.span(b'role'))}'"
            if kind == REFUSED_TOOLS:
                yield f"{subject} is not allowed"
            yield from _declaration_problems(message, subject, start)
            yield from _tool_problems(draft.text, index, start, names)

    def rewrite(self, draft: Draft) -> None:
        draft.found.remove_marked(draft.edits, REFUSED_TOOLS | RESULT_TOOLS | ROOT_TOOLS)
        if draft.written("stream") == b"true":
            options = draft.inside("stream_options")
            if options is None or options.raw(b"include_usage") in (None, NULL):
                draft.put_inside("stream_options", b"include_usage", b"true")


def _declaration_problems(message: Members, subject: str, start: int) -> Iterator[str]:
    """Of the list as a whole."""
    text = message.text
    if text[start] != ord("[") or not all(_TOOL.fits(text, *span) for span in elements(text, start)):
        yield f"{subject} must be a list of tool declarations"
        return
    declares = next(elements(text, start), None) is not None
    content = message.span(b"content")
    if declares and content is not None and not _is_empty(text, *content):
        yield f"{subject} requires empty content"


def _is_empty(text: bytes, start: int, end: int) -> bool:
    """Is it null, an empty string or an empty list?"""
    if text[start] == ord("["):
        return next(elements(text, start), None) is None
    return end - start <= len(NULL) and text[start:end] in (NULL, b'""')


def _tool_problems(text: bytes, index: int, start: int, names: Names) -> Iterator[str]:
    """Of each tool; `names` are those declared so far and grow."""
    for place, tool in enumerate(objects_at(text, start)):
        where = f"messages[{index}].tools[{place}]"
        span = function_name_span(tool)
        name = text_at(text, span) or ""
        if text_at(text, tool.span(b"type")) != "function":
            yield f"{where}: tool type must be 'function'"
        if _NAME.fullmatch(name) is None:
            yield f"{where}: tool name must match [A-Za-z_][A-Za-z0-9_]* and be at most 256 characters"
        if span is not None and not names.add(*span):
            yield f"{where}: duplicate tool name '{name}'"


class KimiK3(Kimi):
    marker = "kimi[-_]k3"

    _ALLOWED = (
        ("temperature", (0.0, 0.6, 1.0), "0, 0.6 or 1"),
        ("top_p", (0.95,), "0.95"),
        ("presence_penalty", (0.0,), "0"),
        ("frequency_penalty", (0.0,), "0"),
        ("n", (1.0,), "1"),
    )
    _EFFORTS = ("low", "high", "max")

    def problems(self, draft: Draft) -> Iterator[str]:
        for field, values, told in self._ALLOWED:
            written = draft.written(field)
            if written is not None and as_single(float(written)) not in map(as_single, values):
                yield f"invalid {field}: only {told} is allowed for this model"
        effort = Effort(draft)
        if effort.type == "adaptive":
            yield "invalid thinking.type: only enabled or disabled is allowed for this model"
        if effort.thinking is not None and effort.thinking not in self._EFFORTS:
            yield "invalid thinking.effort: only low, high or max is allowed for this model"
        yield from super().problems(draft)

    def rewrite(self, draft: Draft) -> None:
        super().rewrite(draft)
        draft.default("temperature", b"1.0")
        draft.default("top_p", b"0.95")
        draft.default("presence_penalty", b"0")
        draft.default("frequency_penalty", b"0")
        draft.default("n", b"1")
