"""What a parser tells of a text, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smg.text.tools import PARSERS
from smg.text.tools.events import Answer, Arguments, Broken, Call, Event, Text, whole
from smg.text.tools.values import Schemas

PARAMETERS: dict[str, Any] = {
    "get_weather": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    "get_time": {"properties": {"zone": {"type": "string"}}},
}


def events_of(name: str, pieces: Iterable[str], parameters: dict[str, Any] = PARAMETERS) -> list[Event]:
    parser = PARSERS[name](Schemas(parameters))
    events = [event for piece in pieces for event in parser.push(piece)] + parser.finish()
    check_order(events)
    return events


def answer(name: str, text: str, parameters: dict[str, Any] = PARAMETERS) -> Answer:
    return whole(events_of(name, [text], parameters), keeps_rest=PARSERS[name].KEEPS_REST)


def streamed(name: str, pieces: Iterable[str]) -> Answer:
    """What a client of a stream puts together; it never sees that a call was broken off."""
    events = events_of(name, pieces)
    return whole([event for event in events if not isinstance(event, Broken)], keeps_rest=True)


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def check_order(events: list[Event]) -> None:
    """Calls come in order, and each one's arguments right after it; there are no empty events."""
    begun, open_ = 0, -1
    for event in events:
        match event:
            case Call():
                assert (event.index, bool(event.name)) == (begun, True)
                open_ = begun
                begun += 1
            case Arguments():
                assert event.index == open_
                assert event.text
            case Broken():
                assert event.index == open_
                open_ = -1
            case Text():
                assert event.text
                open_ = -1
