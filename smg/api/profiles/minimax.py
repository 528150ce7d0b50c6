"""MiniMax: `root` messages become `system` messages in front, and the history of tool calls must add up."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from smg._fast.jsonedit import Edits
from smg._fast.jsonnames import Names
from smg._fast.jsonspan import elements, members_at, says_object, text_of
from smg.api.chat_request import ROOT_MESSAGE, ROOT_TOOLS, TOOL_CALL_ID, TOOL_CALLS
from smg.api.draft import NULL, Draft
from smg.api.profiles.profile import MESSAGE_TOOLS, Profile, object_in, objects_at, text_at

_PIECE = 1 << 16


class MiniMax(Profile):
    marker = "minimax|abab"

    def problem(self, draft: Draft) -> str | None:
        return next(self.problems(draft), None)

    def problems(self, draft: Draft) -> Iterator[str]:
        """Walk the calls and their answers in the order of the messages."""
        if not draft.found.marked & (TOOL_CALLS | TOOL_CALL_ID):
            return
        text = draft.text
        calls = Names(text)
        for kind, *_, start, end in draft.found.marks(TOOL_CALLS | TOOL_CALL_ID):
            if kind == TOOL_CALLS:
                yield from _take_calls(text, start, calls)
            elif not calls.cross_off(start, end):
                yield f"no pending tool_call with id '{text_at(text, (start, end))}'"
        unanswered = calls.left()
        if unanswered is not None:
            yield f"tool_call '{text_at(text, unanswered)}' has no matching tool message"

    def rewrite(self, draft: Draft) -> None:
        marked = draft.found.marked
        if marked & MESSAGE_TOOLS:
            draft.found.remove_marked(draft.edits, MESSAGE_TOOLS & ~ROOT_TOOLS)
            draft.dropped = ("messages[].tools",)
        if marked & ROOT_MESSAGE:
            _move_roots(draft)


def _take_calls(text: bytes, start: int, calls: Names) -> Iterator[str]:
    """The problems of one message's calls, which are then pending."""
    for call in objects_at(text, start):
        span = call.span(b"id")
        assert span is not None
        if not calls.add(*span):
            yield f"duplicate tool_call id '{text_at(text, span)}'"
        function = object_in(call, b"function")
        arguments = function.span(b"arguments") if function is not None else None
        if (
            arguments is not None
            and text[arguments[0]] == ord('"')
            and not _may_be_arguments(text, arguments)
        ):
            yield f"tool_call '{text_at(text, span)}' arguments are not a JSON object"


def _may_be_arguments(text: bytes, span: tuple[int, int]) -> bool:
    """Is the string at a span a JSON object, or blank?"""
    if says_object(text, *span):
        return True
    said = text_of(text, *span)
    pieces = (said[at : at + _PIECE] for at in range(0, len(said), _PIECE))
    return all(piece.isspace() for piece in codecs.iterdecode(pieces, "utf-8"))


def _move_roots(draft: Draft) -> None:
    """Those that are in front stay there, the others follow them; each as a `system` message."""
    edits = draft.edits
    roots = draft.found.marks(ROOT_MESSAGE)
    root: int | None = next(roots)[2]
    front: int | None = None
    before = 0
    for start, end in elements(draft.text, draft.start("messages")):
        if start != root:
            front = start if front is None else front
        else:
            root = next(roots, (0, 0, None))[2]
            if front is None:
                for change in _as_system(draft.text, start):
                    edits.put(*change)
            else:
                _repeat(edits, front, start, end)
                edits.put(before, end, b"")
        before = end


def _repeat(edits: Edits, front: int, start: int, end: int) -> None:
    """Let a `root` message stand before `front` as a `system` message."""
    for begin, behind, written in sorted(_as_system(edits.text, start)):
        edits.repeat(front, start, begin)
        edits.put(front, front, written)
        start = behind
    edits.repeat(front, start, end)
    edits.put(front, front, b",")


def _as_system(text: bytes, start: int) -> list[tuple[int, int, bytes]]:
    """The edits that make a `root` message a `system` message."""
    message = members_at(text, start)
    span = message.span(b"role")
    assert span is not None
    edits = [(*span, b'"system"')]
    removal = message.removal(b"tools")
    if removal is not None and message.raw(b"tools") != NULL:
        edits.append((*removal, b""))
    return edits
