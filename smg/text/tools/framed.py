"""Calls between marks: each with marks of its own, or several in a section that has marks as well."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from smg.text.feed import Marks, Steps, ignore
from smg.text.tools.parser import ToolParser

MAX_NAME_CHARACTERS = 256
MAX_HEADER_CHARACTERS = 1024


class Framed(ToolParser):
    """`OPEN` begins a call."""

    OPEN: ClassVar[Marks]

    def steps(self) -> Steps[None]:
        while opened := (yield from self.feed.until(self.OPEN, self.text)):
            self.feed.keep(len(opened))
            if (yield from self.call(opened)):
                self.feed.forget()
            else:
                self.give_back()

    @abstractmethod
    def call(self, mark: str) -> Steps[bool]:
        """Read what follows the mark and say `end` of each call; `False`: what was read is none."""


class Sectioned(Framed):
    """`OPEN` begins a section; in it `CALL` begins a call, and the other mark of `INSIDE` ends it.

    What is said in a section beside calls is content, white space and the section's marks are not. A
    section without a call is content from end to end.
    """

    CALL: ClassVar[str]
    INSIDE: ClassVar[Marks]
    """`CALL` and the mark that ends the section."""

    def steps(self) -> Steps[None]:
        while opened := (yield from self.feed.until(self.OPEN, self.prose)):
            self.feed.keep(len(opened))
            yield from self.section(opened)
            self.feed.forget()

    def prose(self, piece: str) -> None:
        self.text(piece)

    def section(self, opened: str) -> Steps[None]:
        before = self.complete
        while (mark := (yield from self.feed.until(self.INSIDE, ignore))) == self.CALL:
            said = self.feed.kept()[: -len(mark)]
            if said[len(opened) :].strip():
                self.text(said)
                self.feed.keep(len(mark))
                opened = ""
            complete = yield from self.call(mark)
            if self.open:
                self.give_back()
                self.feed.keep()
            elif not complete:
                continue
            opened = ""
        said = self.feed.kept()
        if self.complete == before or said[: len(said) - len(mark)].strip():
            self.text(said)
