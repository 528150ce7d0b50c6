"""Text that comes in pieces, read by parsers that are written as if all of it were there.

A parser is a generator: it yields when it needs more text and goes on when there is some. Nothing is read
twice but the few characters that may still become a mark, so the time is linear however the text is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
Sink = Callable[[str], object]

_BLANK = re.compile(r"\s*")
_MAX_PIECES = 1024


def ignore(_: str) -> None:
    """A sink for text that nobody wants."""


def at_once(steps: Steps[T]) -> T:
    """The outcome of steps over a text that is all there."""
    try:
        next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    raise RuntimeError("a parser waits for text after the end")


class Pieces:
    """A text put together piece by piece, but never of so many at once that it keeps a loop waiting."""

    __slots__ = ("_joined", "_last")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._last: list[str] = []

    def append(self, piece: str) -> None:
        self._last.append(piece)
        if len(self._last) == _MAX_PIECES:
            self._joined.append("".join(self._last))
            self._last.clear()

    def take(self) -> str:
        """The whole text, which is begun anew."""
        if not self._last and not self._joined:
            return ""
        text = "".join((*self._joined, *self._last))
        self._joined.clear()
        self._last.clear()
        return text


class Marks:
    """Texts to look for: `search` finds the first of them, `safe` says how far none can have begun."""

    __slots__ = ("_firsts", "_texts", "longest", "search")

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._firsts = frozenset(text[0] for text in texts)
        self.longest = max(map(len, texts))
        by_length = sorted(texts, key=len, reverse=True)
        self.search = re.compile("|".join(map(re.escape, by_length))).search

    def safe(self, text: str, at: int) -> int:
        safe = len(text)
        for first in self._firsts:
            begun = text.find(first, max(at, len(text) - self.longest + 1), safe)
            while begun >= 0:
                rest = text[begun:]
                if any(mark.startswith(rest) for mark in self._texts):
                    safe = begun
                    break
                begun = text.find(first, begun + 1, safe)
        return safe


class Pattern(Marks):
    """What a pattern matches, or one of the texts; `begun` matches what the former may still become."""

    __slots__ = ("_begun",)

    def __init__(self, pattern: str, begun: str, longest: int, *texts: str) -> None:
        """`begun` ends at the end of the text, and is no longer than `longest`."""
        self._texts = texts
        self._firsts = frozenset(text[0] for text in texts)
        self.longest = longest
        self.search = re.compile("|".join((pattern, *map(re.escape, texts)))).search
        self._begun = re.compile(begun).search

    def safe(self, text: str, at: int) -> int:
        found = self._begun(text, max(at, len(text) - self.longest + 1))
        safe = super().safe(text, at)
        return min(found.start(), safe) if found else safe


class Feed:
    """The text that has come and is not read yet, and if wanted what was read since a point (`keep`)."""

    __slots__ = ("_kept", "_kept_from", "at", "ended", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.ended = False
        self._kept: list[str] | None = None
        self._kept_from = 0

    @classmethod
    def of(cls, text: str) -> Feed:
        """A text that is all there."""
        feed = cls()
        feed.text = text
        feed.ended = True
        return feed

    def add(self, text: str) -> None:
        if self._kept is not None:
            self._kept.append(self.text[self._kept_from : self.at])
            self._kept_from = 0
        self.text = self.text[self.at :] + text
        self.at = 0

    def keep(self, back: int = 0) -> None:
        """Keep what is read from here on, and the `back` characters that were read last."""
        self._kept = []
        self._kept_from = self.at - back

    def kept(self) -> str:
        return "".join(self._kept or ()) + self.text[self._kept_from : self.at]

    def forget(self) -> None:
        self._kept = None

    def until(self, wanted: Marks, sink: Sink) -> Steps[str]:
        """Give `sink` what comes before the first of the marks, as it comes, and pass the mark.

        The mark, or an empty text if none came.
        """
        while True:
            found = wanted.search(self.text, self.at)
            if found:
                stop = found.start()
            else:
                stop = len(self.text) if self.ended else wanted.safe(self.text, self.at)
            if stop > self.at:
                sink(self.text[self.at : stop])
                self.at = stop
            if found:
                self.at = found.end()
                return found.group()
            if self.ended:
                return ""
            yield

    def within(self, wanted: Marks, limit: int) -> Steps[tuple[str, str] | None]:
        """The text before the next mark, and the mark, which is passed; `None`: none within `limit`."""
        while True:
            found = wanted.search(self.text, self.at, self.at + limit + wanted.longest)
            if found:
                before = self.text[self.at : found.start()]
                self.at = found.end()
                return before, found.group()
            if self.ended or len(self.text) - self.at >= limit + wanted.longest:
                return None
            yield

    def starts(self, wanted: str) -> Steps[bool]:
        """Whether the text goes on with this; then it is passed."""
        while not self.text.startswith(wanted, self.at):
            if self.ended or not wanted.startswith(self.text[self.at : self.at + len(wanted)]):
                return False
            yield
        self.at += len(wanted)
        return True

    def blank(self) -> Steps[str]:
        """Pass white space; the character after it, which is not passed, or an empty text at the end."""
        while True:
            found = _BLANK.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if self.ended:
                return ""
            yield
