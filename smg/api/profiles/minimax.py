"""MiniMax: `root` messages become `system` messages in front, and the history of tool calls must add up."""

from __future__ import annotations

from collections.abc import Iterator

from smg._fast.jsonspan import JsonError, elements, members, members_at, splice
from smg.api.chat_request import MESSAGE_TOOLS, ROOT_MESSAGE, TOOL_CALL_ID, TOOL_CALLS
from smg.api.draft import Draft
from smg.api.profiles.profile import Profile, drop_message_tools, object_in, objects_at, text_at


class MiniMax(Profile):
    marker = "minimax|abab"

    def problem(self, draft: Draft) -> str | None:
        return next(self.problems(draft), None)

    def problems(self, draft: Draft) -> Iterator[str]:
        """Walk the calls and their answers in the order of the messages."""
        pending: dict[str, None] = {}
        used: set[str] = set()
        for kind, start, end in _history(draft):
            if kind == TOOL_CALLS:
                yield from _take_calls(draft.text, start, pending, used)
                continue
            name = text_at(draft.text, (start, end)) or ""
            if name not in pending:
                yield f"no pending tool_call with id '{name}'"
            pending.pop(name, None)
        for name in pending:
            yield f"tool_call '{name}' has no matching tool message"

    def rewrite(self, draft: Draft) -> None:
        roots = frozenset(holder for _, holder, *_ in draft.found.marks(ROOT_MESSAGE))
        if draft.found.marked >> MESSAGE_TOOLS & 1:
            drop_message_tools(draft, besides=roots)
        if roots:
            _move_roots(draft, roots)


def _history(draft: Draft) -> Iterator[tuple[int, int, int]]:
    """(kind, start, end) of the lists of calls and the IDs answered, as they come."""
    calls = draft.found.marks(TOOL_CALLS)
    answers = draft.found.marks(TOOL_CALL_ID)
    call, answer = next(calls, None), next(answers, None)
    while call is not None or answer is not None:
        if answer is None or (call is not None and call[0] < answer[0]):
            assert call is not None
            yield TOOL_CALLS, call[4], call[5]
            call = next(calls, None)
        else:
            yield TOOL_CALL_ID, answer[4], answer[5]
            answer = next(answers, None)


def _take_calls(text: bytes, start: int, pending: dict[str, None], used: set[str]) -> Iterator[str]:
    """The problems of one message's calls, which are then pending."""
    for call in objects_at(text, start):
        name = text_at(text, call.span(b"id")) or ""
        if name in used:
            yield f"duplicate tool_call id '{name}'"
        function = object_in(call, b"function")
        arguments = text_at(text, function.span(b"arguments")) if function is not None else None
        if arguments and arguments.strip() and not _is_object(arguments):
            yield f"tool_call '{name}' arguments are not a JSON object"
        used.add(name)
        pending[name] = None


def _is_object(text: str) -> bool:
    try:
        return members(text.encode()) is not None
    except JsonError:
        return False


def _move_roots(draft: Draft, roots: frozenset[int]) -> None:
    """Those that are in front stay there, the others follow them; each as a `system` message."""
    moved: list[bytes] = []
    front: int | None = None
    before = 0
    for start, end in elements(draft.text, draft.start("messages")):
        if start not in roots:
            front = start if front is None else front
        elif front is None:
            draft.edits += _as_system(draft.text, start, 0)
        else:
            moved.append(splice(draft.text[start:end], _as_system(draft.text, start, start)))
            draft.edits.append((before, end, b""))
        before = end
    if moved and front is not None:
        draft.edits.append((front, front, b",".join(moved) + b","))


def _as_system(text: bytes, start: int, origin: int) -> list[tuple[int, int, bytes]]:
    """The edits that make a `root` message a `system` message, counted from `origin`."""
    message = members_at(text, start)
    span = message.span(b"role")
    assert span is not None
    edits = [(*span, b'"system"')]
    tools = message.span(b"tools")
    if tools is not None and text[tools[0]] != ord("n"):
        edits += message.removals(b"tools")
    return [(begin - origin, end - origin, written) for begin, end, written in edits]
