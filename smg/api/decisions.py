"""The request of `/v1/decisions`: its schema, its limits, and the members that no schema knows.

The schema only checks. A worker that speaks Decisions gets the client's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from smg import errors
from smg._fast.jsonspan import JsonError, Members, members
from smg.api.call import Call
from smg.api.pairs import Pairs, read_pairs
from smg.api.surfaces import Surface

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


_PLACES: dict[type[msgspec.Struct], str] = {
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


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    tag = kind.__struct_config__.tag_field
    return frozenset(kind.__struct_encode_fields__) | (frozenset({tag}) if tag else frozenset())


_NAMES = {kind: _names(kind) for kind in _PLACES}
_decoder = msgspec.json.Decoder(Request)


class Decisions(Call):
    """`extensions`: (name, place) of each member that no schema knows, images' aside; `evidence`: the
    input as the client wrote it."""

    __slots__ = ("evidence", "extensions", "request")

    def __init__(
        self,
        surface: Surface,
        model: str,
        body: bytes,
        request: Request,
        evidence: bytes,
        extensions: list[tuple[str, str]],
    ) -> None:
        super().__init__(surface, model, False, body)
        self.request = request
        self.evidence = evidence
        self.extensions = extensions


def decode(surface: Surface, body: bytes, resolve: Callable[[str], str]) -> Decisions:
    """Check the body and read the call from it; `resolve` gives a model's canonical name. Raises 400."""
    try:
        found = members(body)
    except JsonError as error:
        raise errors.json_syntax_error(str(error), body, error.position) from None
    if found is None:
        raise errors.json_mismatch("invalid type: the body must be a JSON object", body, 0)
    try:
        request = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise _mismatch(str(error), found) from None
    extensions = _extensions(request, read_pairs(body), found)
    problems = [f"{name}: {problem}" for name, check in _CHECKS if (problem := check(request))]
    if problems:
        raise errors.validation_failed("\n".join(problems))
    model = resolve(request.model)
    if model != request.model:
        start, end = found.span(b"model") or (0, 0)
        body = b"".join((body[:start], msgspec.json.encode(model), body[end:]))
    return Decisions(surface, model, body, request, found.raw(b"input") or b"", extensions)


def _mismatch(problem: str, found: Members) -> errors.GatewayError:
    """Words msgspec's error, `problem - at `$.path``, with the path in front."""
    what, _, path = problem.partition(" - at `$")
    path = path.rstrip("`").removeprefix(".")
    member = path.partition(".")[0].partition("[")[0]
    span = found.span(member.encode()) if member else None
    position = span[0] if span is not None else len(found.text)
    return errors.json_mismatch(f"{path}: {what}" if path else what, found.text, position)


# ---- members


def _extensions(request: Request, pairs: Pairs, found: Members) -> list[tuple[str, str]]:
    """The members that no schema knows, in order; a known one that is given twice is refused."""
    unknown: list[tuple[str, str]] = []
    for kind, given in _objects(request, pairs):
        known, seen = _NAMES[kind], set()
        for name, _ in given:
            if name not in known:
                if kind is not ImagePart:
                    unknown.append((name, _PLACES[kind]))
            elif name in seen:
                raise errors.json_mismatch(f"duplicate field `{name}`", found.text, len(found.text))
            seen.add(name)
    return unknown


def _objects(request: Request, pairs: Pairs) -> Iterator[tuple[type[msgspec.Struct], Pairs]]:
    """Every object of the request beside what was written for it, in the request's order."""
    yield Request, pairs
    if not isinstance(request.input, str):
        for message, written in zip(request.input, pairs.items_of("input"), strict=True):
            yield Message, written
            if not isinstance(message.content, str):
                for part, text in zip(message.content, written.items_of("content"), strict=True):
                    yield type(part), text
    for question, written in zip(request.questions, pairs.items_of("questions"), strict=True):
        yield type(question), written
        if isinstance(question, Choose):
            yield from ((Choice, text) for text in written.items_of("choices"))
        elif isinstance(question, Score):
            yield from ((Level, text) for text in written.items_of("levels"))


# ---- limits


def _at_most(limit: int, *texts: str | UnsetType | None) -> str | None:
    if any(isinstance(text, str) and len(text) > limit for text in texts):
        return f"must be at most {limit} characters"
    return None


def _check_input(request: Request) -> str | None:
    images = 0
    for message in request.input if not isinstance(request.input, str) else ():
        for part in message.content if not isinstance(message.content, str) else ():
            if isinstance(part, TextPart):
                if problem := _at_most(MAX_EVIDENCE, part.text):
                    return problem
                continue
            images += 1
            if images > MAX_IMAGES:
                return f"at most {MAX_IMAGES} images are allowed per request"
            if not _is_inline_image(part.image_url):
                return "images must be inline base64 image data URLs"
    return None


def _is_inline_image(url: str) -> bool:
    """Is it `data:image/...;base64,` with something behind it? That is not decoded."""
    comma = url.find(",")
    head = url[: max(comma, 0)]
    kind = head.removeprefix("data:image/").removesuffix(";base64")
    return len(url) > comma + 1 and len(head) - len(kind) == len("data:image/;base64") and kind != ""


def _check_questions(request: Request) -> str | None:
    for question in request.questions:
        texts = [question.instructions, question.name]
        if isinstance(question, Choose):
            texts += [choice.description for choice in question.choices]
        elif isinstance(question, Score):
            texts += [text for level in question.levels for text in (level.label, level.description)]
        if problem := _at_most(MAX_TEXT, *texts):
            return problem
    return None


# In the order in which they are reported.
_CHECKS: tuple[tuple[str, Callable[[Request], str | None]], ...] = (
    ("input", _check_input),
    ("model", lambda request: _at_most(MAX_TEXT, request.model)),
    ("questions", _check_questions),
    ("safety_identifier", lambda request: _at_most(MAX_IDENTIFIER, request.safety_identifier)),
)
