"""What a provider profile is: the rules and rewrites of a model family, here those of the OpenAI baseline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from smg._fast.jsonedit import Edit
from smg._fast.jsonspan import Members, elements, members_at
from smg.api.chat_request import DECLARED_TOOLS, REFUSED_TOOLS, RESULT_TOOLS, ROOT_MESSAGE, ROOT_TOOLS
from smg.api.draft import Draft

MESSAGE_TOOLS = DECLARED_TOOLS | REFUSED_TOOLS | RESULT_TOOLS | ROOT_TOOLS


class Profile:
    """`marker`: a pattern for the beginning of a segment of the model's name, in lower case.

    `has_message_tools`: tools may be declared on messages; elsewhere they belong to another family.
    """

    marker = ""
    has_message_tools = False

    def __init__(self) -> None:
        self._selector = re.compile(f"(?:^|/)(?:{self.marker})", re.ASCII | re.IGNORECASE)

    def selects(self, model: str) -> bool:
        """Does any segment begin with the marker?"""
        return self._selector.search(model) is not None

    def begins(self, model: str, at: int) -> bool:
        """Does the segment there, its slash included, begin with the marker?"""
        return self._selector.match(model, at) is not None

    def problem(self, draft: Draft) -> str | None:
        """The first rule that the request breaks."""
        if draft.found.marked & ROOT_MESSAGE:
            return "invalid role: root"
        return next(self.problems(draft), None)

    def problems(self, draft: Draft) -> Iterator[str]:
        """The family's own broken rules, in the order of checking."""
        return iter(())

    def rewrite(self, draft: Draft) -> None:
        """Plan the family's edits."""
        if draft.found.marked & MESSAGE_TOOLS:
            draft.found.remove_marked(draft.edits, MESSAGE_TOOLS)
            draft.dropped = ("messages[].tools",)


# ---- reading parts of a request


def text_at(text: bytes, span: tuple[int, int] | None) -> str | None:
    """The string at a span; None when there is none or it is something else."""
    if span is None or text[span[0]] != ord('"'):
        return None
    read: str = msgspec.json.decode(text[span[0] : span[1]])
    return read


def objects_at(text: bytes, start: int) -> Iterator[Members]:
    """The members of each object in the array at `start`; other elements are passed over."""
    for begin, _ in elements(text, start):
        if text[begin] == ord("{"):
            yield members_at(text, begin)


def object_in(held: Members, name: bytes) -> Members | None:
    span = held.span(name)
    if span is None or held.text[span[0]] != ord("{"):
        return None
    return members_at(held.text, span[0])


def function_name_span(tool: Members) -> tuple[int, int] | None:
    """Where the name of a tool's function stands; None when it has none."""
    function = object_in(tool, b"function")
    span = function.span(b"name") if function is not None else None
    return span if span is not None and tool.text[span[0]] == ord('"') else None


def tool_names(draft: Draft, profile: Profile) -> Iterator[tuple[int, int] | None]:
    """Where the names of the request's functions stand, those on messages included where the profile has
    them; None for a tool that is none."""
    starts: Iterable[int] = (draft.start("tools"),) if draft.has("tools") else ()
    if profile.has_message_tools:
        declared = (
            start for *_, start, _ in draft.found.marks(DECLARED_TOOLS) if draft.text[start] == ord("[")
        )
        starts = chain(starts, declared)
    for start in starts:
        for tool in objects_at(draft.text, start):
            is_function = text_at(draft.text, tool.span(b"type")) == "function"
            yield function_name_span(tool) if is_function else None


def edit(span: tuple[int, int], written: str) -> Edit:
    """The edit that puts a string in the place of another."""
    return (*span, msgspec.json.encode(written))


# ---- thinking and effort


class Effort:
    """The effort of a request in its two spellings, each None when it is not given."""

    __slots__ = ("outer", "outer_is_text", "thinking", "thinking_span", "type")

    def __init__(self, draft: Draft) -> None:
        written = draft.written("reasoning_effort")
        self.outer_is_text = written is not None and written.startswith(b'"')
        self.outer: str | None = None
        if written is not None:
            self.outer = msgspec.json.decode(written) if self.outer_is_text else written.decode()
        held = draft.inside("thinking")
        self.thinking_span = held.span(b"effort") if held is not None else None
        self.thinking = text_at(draft.text, self.thinking_span)
        self.type = text_at(draft.text, held.span(b"type")) if held is not None else None
