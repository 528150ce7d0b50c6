"""Sections of calls whose name stands before a mark and whose arguments are a JSON object after it."""

from __future__ import annotations

import re

from smg.text.feed import Marks, Steps
from smg.text.tools.framed import MAX_NAME_CHARACTERS, Sectioned

_BEGIN = "<｜tool▁calls▁begin｜>"
_END = "<｜tool▁calls▁end｜>"
_CALL = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"


class Named(Sectioned):
    def arguments_of(self, name: str, *after: str) -> Steps[bool]:
        """An object that is a call's arguments, and the marks after it, white space between them."""
        if not name or (yield from self.feed.blank()) != "{":
            return False
        self.begin(name)
        if not (yield from self.json.value(self.arguments)):
            return False
        for mark in after:
            if not (yield from self.after_blanks(mark)):
                return False
        self.end()
        return True


class DeepSeek31(Named):
    OPEN = Marks(_BEGIN)
    CALL = _CALL
    INSIDE = Marks(_CALL, _END)
    _SEPARATOR = Marks(_SEPARATOR)

    def call(self, mark: str) -> Steps[bool]:
        named = yield from self.feed.within(self._SEPARATOR, MAX_NAME_CHARACTERS)
        return named is not None and (yield from self.arguments_of(named[0].strip(), _CALL_END))


class DeepSeek(Named):
    """The arguments stand in a fenced block."""

    OPEN = Marks(_BEGIN)
    CALL = _CALL
    INSIDE = Marks(_CALL, _END)
    _LINE_END = Marks("\n")

    def call(self, mark: str) -> Steps[bool]:
        if not (yield from self.feed.starts("function" + _SEPARATOR)):
            return False
        named = yield from self.feed.within(self._LINE_END, MAX_NAME_CHARACTERS)
        if named is None:
            return False
        if not (yield from self.after_blanks("```json")):
            return False
        return (yield from self.arguments_of(named[0].strip(), "```", _CALL_END))


class KimiK2(Named):
    """The name stands in an ID, `functions.NAME:0`."""

    OPEN = Marks("<|tool_calls_section_begin|>")
    CALL = "<|tool_call_begin|>"
    INSIDE = Marks(CALL, "<|tool_calls_section_end|>")
    _ARGUMENTS = Marks("<|tool_call_argument_begin|>")
    _ID = re.compile(r"\s*(?:functions\.)?+([^\s:]\S*?)(?::[0-9]+)?\s*")

    def call(self, mark: str) -> Steps[bool]:
        named = yield from self.feed.within(self._ARGUMENTS, MAX_NAME_CHARACTERS)
        found = self._ID.fullmatch(named[0]) if named else None
        return found is not None and (yield from self.arguments_of(found[1], "<|tool_call_end|>"))
