"""What all tool-call parsers share: pieces of text in, events out, and text that is no call given back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from smg.text.feed import Feed, Pieces, Steps
from smg.text.jsontext import JsonReader
from smg.text.tools.events import Answer, Arguments, Broken, Call, Event, Text, whole
from smg.text.tools.values import Schemas


class ToolParser(ABC):
    """One answer's parser. A format says in `steps` how its text is read.

    Events of one kind that come in a row are joined within a push.
    """

    KEEPS_REST: ClassVar[bool] = False
    """Whether text after a call belongs to the content of an answer that is not streamed."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.feed = Feed()
        self.json = JsonReader(self.feed)
        self.complete = 0
        self.passing = False
        self._begun = 0
        self.open = False
        self._events: list[Event] = []
        self._texts = Pieces()
        self._arguments = Pieces()
        self._spaces = Pieces()
        self._before = ""
        self._steps = self.steps()

    def push(self, text: str) -> list[Event]:
        """What has become known by this piece of the answer."""
        self.feed.add(text)
        next(self._steps, None)
        if self.passing:
            self.pass_on()
        return self._take()

    def finish(self) -> list[Event]:
        """What is known at the end of the answer; nothing may be pushed after it."""
        self.feed.ended = True
        next(self._steps, None)
        if not self.complete:
            self._texts.append(self._spaces.take())
        return self._take()

    def parse(self, text: str) -> Answer:
        """A whole answer."""
        return whole(self.push(text) + self.finish(), keeps_rest=self.KEEPS_REST)

    @abstractmethod
    def steps(self) -> Steps[None]:
        """Reads the whole feed."""

    def text(self, piece: str) -> None:
        """Content. White space after a call is held back: it only separates calls, unless text follows."""
        if not piece:
            return
        if self.complete and not self.KEEPS_REST and piece.isspace():
            self._spaces.append(piece)
            return
        self._flush_arguments()
        if spaces := self._spaces.take():
            self._texts.append(spaces)
        self._texts.append(piece)

    def hold_space(self, piece: str) -> None:
        """Content whose last white space goes when a call follows."""
        said = piece.rstrip()
        self.text(said)
        if len(said) < len(piece):
            self._spaces.append(piece[len(said) :])

    def begin(self, name: str) -> None:
        self._flush()
        self._before = self._spaces.take()
        self._events.append(Call(self._begun, name))
        self._begun += 1
        self.open = True

    def arguments(self, piece: str) -> None:
        self._arguments.append(piece)

    def end(self) -> None:
        """The call that has begun is complete."""
        self.open = False
        self.complete += 1
        self.feed.keep()

    def after_blanks(self, mark: str) -> Steps[bool]:
        """Does a mark come next, maybe behind white space? Then it is read."""
        yield from self.feed.blank()
        return (yield from self.feed.starts(mark))

    def end_with(self, mark: str) -> Steps[bool]:
        """The same of the mark that completes the call which has begun."""
        if not (yield from self.after_blanks(mark)):
            return False
        self.end()
        return True

    def give_back(self) -> None:
        """What was read since `feed.keep` is no call, or no more one."""
        text = self.feed.kept()
        self.feed.forget()
        self.passing = False
        if self.open:
            self._flush()
            self._events.append(Broken(self._begun - 1, self._before + text))
            self.open = False
        else:
            self.text(text)

    def pass_on(self) -> None:
        """What was read since `feed.keep` is content for sure."""
        self.text(self.feed.kept())
        self.feed.keep()

    def _flush_arguments(self) -> None:
        if arguments := self._arguments.take():
            self._events.append(Arguments(self._begun - 1, arguments))

    def _flush(self) -> None:
        self._flush_arguments()
        if text := self._texts.take():
            self._events.append(Text(text))

    def _take(self) -> list[Event]:
        self._flush()
        events, self._events = self._events, []
        return events
