"""What a tool-call parser tells, and the whole answer that its events make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class Text:
    """What the engine said beside its calls."""

    text: str


@dataclass(slots=True)
class Call:
    """A call begins; its arguments follow."""

    index: int
    name: str


@dataclass(slots=True)
class Arguments:
    """A piece of a call's arguments: joined they are JSON."""

    index: int
    text: str


@dataclass(slots=True)
class Broken:
    """A call that had begun turned out to be none. `text` is what the engine wrote for it.

    A client that reads a stream has seen it begin and can tell by the arguments; whoever waits for the
    whole answer gets the text.
    """

    index: int
    text: str


Event: TypeAlias = Text | Call | Arguments | Broken


@dataclass(slots=True)
class Answer:
    """`calls`: name and arguments of each, in order."""

    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)


def whole(events: Iterable[Event], *, keeps_rest: bool) -> Answer:
    """The answer that events make; without `keeps_rest` what follows the first call is dropped."""
    texts: list[str] = []
    calls: dict[int, tuple[str, list[str]]] = {}
    for event in events:
        if isinstance(event, Arguments):
            calls[event.index][1].append(event.text)
        elif isinstance(event, Call):
            calls[event.index] = (event.name, [])
        else:
            if isinstance(event, Broken):
                del calls[event.index]
            if keeps_rest or not calls:
                texts.append(event.text)
    return Answer("".join(texts), [(name, "".join(pieces)) for name, pieces in calls.values()])
