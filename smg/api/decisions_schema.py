"""The schema of `/v1/decisions` and its limits. It only checks: no worker gets what was decoded by it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

MAX_IDENTIFIER = 128
MAX_TEXT = 1_048_576
MAX_EVIDENCE = 10_485_760
MAX_IMAGES = 128
"""Limits in characters, and the number of images in a request."""


class TextPart(msgspec.Struct, tag_field="type", tag="input_text"):
    text: str


class ImagePart(msgspec.Struct, tag_field="type", tag="input_image"):
    image_url: str
    detail: Literal["low", "high", "auto", "original"] | None = None


class Message(msgspec.Struct):
    role: Literal["user"]
    content: str | list[TextPart | ImagePart]
    type: Literal["message"] | UnsetType = UNSET


class Choice(msgspec.Struct):
    value: str | bool
    description: str | UnsetType = UNSET


class Level(msgspec.Struct):
    label: str
    description: str | UnsetType = UNSET


class Question(msgspec.Struct, tag_field="type", kw_only=True):
    instructions: str
    name: str | UnsetType = UNSET


class Predicate(Question, tag="predicate"):
    pass


class Choose(Question, tag="choice"):
    choices: list[Choice]


class Score(Question, tag="score"):
    levels: list[Level]


class Request(msgspec.Struct):
    model: str
    input: str | list[Message]
    questions: list[Predicate | Choose | Score]
    safety_identifier: str | None = None


Kind = type[msgspec.Struct]

PLACES: dict[Kind, str] = {
    Request: "request",
    Message: "input message",
    TextPart: "input text part",
    ImagePart: "input image part",
    Predicate: "predicate question",
    Choose: "choice question",
    Score: "score question",
    Choice: "choice option",
    Level: "score level",
}
"""What errors call them."""

LISTS: dict[Kind, tuple[str, ...]] = {
    Request: ("input", "questions"),
    Message: ("content",),
    Choose: ("choices",),
    Score: ("levels",),
}
"""The fields that are lists of objects, or may be."""
