"""Calls as Python writes them, and lists of dictionaries in Python's spelling.

A list is a call or several only as a whole, so nothing is told of it before it has ended.
"""

from __future__ import annotations

import json
from typing import ClassVar

from smg.text.feed import Marks, Pattern, Steps
from smg.text.pytext import Tokens, bracketed, call, listed, value
from smg.text.tools.framed import Framed


class Pythonic(Framed):
    """`[name(argument=literal), …]`"""

    KEEPS_REST = True
    _AROUND = ("<|python_start|>", "<|python_end|>")
    OPEN: ClassVar[Marks] = Pattern(
        r"\[(?=\s{0,9}[^\W\d]\w{0,99}\s{0,9}\()",
        r"\[\s{0,9}(?:[^\W\d]\w{0,99}\s{0,9})?\Z",
        128,
        *_AROUND,
    )

    def call(self, mark: str) -> Steps[bool]:
        if mark in self._AROUND:
            return True
        pieces = [mark]
        if not (yield from bracketed(self.feed, mark, pieces.append)):
            return False
        return self.tell(_calls("".join(pieces)))

    def tell(self, calls: list[tuple[str, str]]) -> bool:
        for name, arguments in calls:
            self.begin(name)
            self.arguments(arguments)
            self.end()
        return bool(calls)


def _calls(text: str) -> list[tuple[str, str]]:
    """The calls of a list; none if something in it is no call."""
    found: list[tuple[str, str]] = []

    def one() -> str:
        found.append(call(tokens))
        return ""

    try:
        tokens = Tokens(text)
        tokens.takes("[")
        for _ in listed(tokens, "]", one):
            pass
        tokens.end()
    except ValueError:
        return []
    return found


class Sarashina(Pythonic):
    """A list of dictionaries, or one, after a mark or as the beginning of the text."""

    _MARK = "<|tool_calls|>"
    OPEN = Marks(_MARK)

    def steps(self) -> Steps[None]:
        self.feed.keep()
        if (yield from self.call("")):
            self.feed.forget()
        else:
            self.give_back()
        yield from super().steps()

    def call(self, mark: str) -> Steps[bool]:
        opening = yield from self.feed.blank()
        if opening not in ("[", "{"):
            return False
        yield from self.feed.starts(opening)
        pieces = [opening]
        if not (yield from bracketed(self.feed, opening, pieces.append)):
            return False
        return self.tell(_dictionaries("".join(pieces)))


def _dictionaries(text: str) -> list[tuple[str, str]]:
    """Name and arguments of each dictionary that has a name."""
    try:
        tokens = Tokens(text)
        found = json.loads(value(tokens))
        tokens.end()
    except ValueError:
        return []
    objects = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
    named = [one for one in objects if isinstance(one.get("name"), str) and one["name"]]
    return [(one["name"], _dumped(one.get("arguments", one.get("parameters", {})))) for one in named]


def _dumped(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
