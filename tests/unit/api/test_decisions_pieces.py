"""Decisions read in pieces of any size: the same findings, errors and bytes for the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smg.api import decisions_findings, decisions_reading
from smg.api.decisions import decode
from smg.api.decisions_reading import PIECE, Misfit, read
from smg.api.decisions_schema import Request
from smg.api.decisions_systemone import InvalidReply, request_body, response_body
from smg.errors import GatewayError
from tests.unit.api.test_decisions import IMAGE, PREDICATE, SURFACE, call_of, refusal, request
from tests.unit.api.test_decisions_systemone import CHOICE, CHOSEN, NOUL, SCORE, SCORED, reply

WHOLE = 1 << 30
SIZES = st.sampled_from([0, 1, 30, 60, 100, 300])

texts = st.sampled_from(
    [
        "",
        " ",
        "\u2003\t",
        "x",
        "é𝄞",
        'a"\\\n',
        "long " * 4,
        "t - at `$.model`",
        IMAGE,
        "data:image/;base64,A",
        "data:,",
    ]
)
wrong = st.sampled_from(
    [None, 1, -2.5, 10**30, True, "user", "choice", [], {}, [0], {"a": {"a": 1, "b": [[]]}}]
)


class Object(list[tuple[str, Any]]):
    """An object's members, which may be repeated."""


def written(value: Any, draw: Callable[[Any], Any]) -> str:
    """JSON in one of the ways to write it."""
    blank = draw(st.sampled_from(["", "", " ", "\n\t"]))
    if isinstance(value, Object):
        members = (f"{written(name, draw)}{blank}:{blank}{written(one, draw)}" for name, one in value)
        return f"{{{blank}{(',' + blank).join(members)}{blank}}}"
    if isinstance(value, list):
        return f"[{blank}{(blank + ',').join(written(one, draw) for one in value)}]"
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, str) and value[:1].isalnum() and text[1] == value[0] and not draw(st.integers(0, 9)):
        return f'"\\u{ord(value[0]):04x}{text[2:]}'
    return text


@st.composite
def objects(draw: Callable[[Any], Any], fields: dict[str, Any], tag: Any = None) -> Object:
    """Mostly what the fields say, in any order; now and then one is missing, repeated, unknown or wrong."""
    members = [(name, draw(value)) for name, value in fields.items() if draw(st.integers(0, 19))]
    if tag is not None:
        members.insert(0, ("type", tag))
    if not draw(st.integers(0, 7)):
        names = st.sampled_from([*fields, "type", "other", "text", "name"])
        members.append((draw(names), draw(st.one_of(texts, wrong))))
    if not draw(st.integers(0, 15)) and members:
        members.append(draw(st.sampled_from(members)))
    if not draw(st.integers(0, 2)):
        members = draw(st.permutations(members))
    return Object(members)


def maybe(value: Any) -> Any:
    return st.one_of(*[value] * 15, wrong)


parts = st.one_of(
    objects({"text": texts}, "input_text"),
    objects(
        {"image_url": st.one_of(st.just(IMAGE), texts), "detail": st.sampled_from(["low", None, "odd"])},
        "input_image",
    ),
    objects({"text": texts}, "input_audio"),
)
messages = objects(
    {
        "role": st.sampled_from(["user"] * 9 + ["tool"]),
        "content": st.one_of(texts, st.lists(maybe(parts), max_size=4)),
    }
)
choices = objects({"value": st.one_of(texts, st.booleans()), "description": texts})
levels = objects({"label": texts, "description": texts})
questions = st.one_of(
    objects({"instructions": texts}, "predicate"),
    objects(
        {"name": texts, "instructions": texts, "choices": maybe(st.lists(maybe(choices), max_size=4))},
        "choice",
    ),
    objects({"instructions": texts, "levels": maybe(st.lists(maybe(levels), max_size=4))}, "score"),
    objects({"instructions": texts}, "guess"),
)


@st.composite
def bodies(draw: Callable[[Any], Any]) -> bytes:
    body = draw(
        objects(
            {
                "model": st.sampled_from(["m", "alias", "long " * 4]),
                "input": maybe(st.one_of(texts, st.lists(maybe(messages), max_size=4))),
                "questions": maybe(st.lists(maybe(questions), max_size=5)),
                "safety_identifier": st.one_of(st.none(), texts),
            }
        )
    )
    return written(body, draw).encode()


def outcome(body: bytes, piece: int) -> Any:
    """All that can be seen of how a body is taken."""
    try:
        call = decode(SURFACE, body, lambda name: "canonical" if name == "alias" else name, piece)
    except GatewayError as error:
        return error.status, error.code, error.message
    found = call.findings
    seen = [
        call.body,
        call.model,
        call.evidence,
        found.extension,
        found.images,
        found.has_text,
        found.questions,
    ]
    try:
        return [*seen, json.loads(request_body(call, piece))]
    except GatewayError as error:
        return [*seen, error.message]


@given(bodies(), SIZES)
@example(b'{"model":"m","input":"x","input":[],"questions":[{"type":"choice","type":"score"}]}', 0)
def test_pieces_make_no_difference(body: bytes, piece: int) -> None:
    small = pytest.MonkeyPatch()
    with small.context() as limits:
        for name, limit in (("MAX_TEXT", 12), ("MAX_EVIDENCE", 14), ("MAX_IDENTIFIER", 4)):
            limits.setattr(decisions_reading, name, limit)
            limits.setattr(decisions_findings, name, limit)
        limits.setattr(decisions_findings, "MAX_IMAGES", 2)
        assert outcome(body, piece) == outcome(body, WHOLE)


@given(bodies(), SIZES)
def test_what_fits_is_what_msgspec_takes(body: bytes, piece: int) -> None:
    try:
        msgspec.json.decode(body, type=Request)
        told = None
    except msgspec.DecodeError as error:
        told = str(error)
    try:
        read(body, 0, len(body), piece)
        found = None
    except Misfit as misfit:
        found = f"{misfit.what} - at `${misfit.path}`" if misfit.path else misfit.what
    assert found == told


@pytest.mark.parametrize("piece", [0, 50, PIECE])
def test_answers_in_pieces(piece: int) -> None:
    call = call_of(
        request(
            questions=[
                PREDICATE,
                {**CHOICE, "choices": [{"value": "a", "description": "d"}, {"value": False}]},
                SCORE,
            ]
            * 3
        )
    )
    content = reply(*[NOUL, CHOSEN, SCORED] * 3)
    assert response_body(call, content, piece) == response_body(call, content, WHOLE)
    assert len(json.loads(response_body(call, content, piece))["answers"]) == 9


def test_an_answer_is_found_in_any_order_and_not_twice() -> None:
    call = call_of(request(questions=[PREDICATE, PREDICATE]))
    answers = {"q1": {**NOUL, "noul": 0.5}, "q0": NOUL}
    told = json.loads(response_body(call, reply(answers=answers)))["answers"]
    assert [one["probability"] for one in told] == [0.25, 0.5]
    for name in ("q1", "q01", "q2", "q-1", "x"):
        twice = reply(answers=answers).replace(b'"q0"', b'"%b"' % name.encode())
        with pytest.raises(InvalidReply):
            response_body(call, twice)


MANY = 2000


@pytest.mark.parametrize(
    "body",
    [
        request(questions=[PREDICATE] * MANY),
        request(input=[{"role": "user", "content": "hi"}] * MANY),
        request(input=[{"role": "user", "content": [{"type": "input_text", "text": "hi"}] * MANY}]),
        request(
            questions=[PREDICATE, {**CHOICE, "choices": [{"value": "a", "description": "d" * 30_000}] * 3}]
        ),
        request(questions=[{**SCORE, "levels": [{"label": "é" * 20_000}] * 10}]),
        request(questions=[{**PREDICATE, "instructions": "\t" * 100_000 + "x"}]),
        request(input="é\n" * 500_000),
        request(input=" \u2003" * 500_000),
        request(**{f"k{number}": number for number in range(MANY)}),
    ],
    ids=lambda body: str(body)[:60],
)
def test_large_bodies(body: dict[str, Any]) -> None:
    text = json.dumps(body).encode()
    assert outcome(text, PIECE) == outcome(text, WHOLE)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (
            request(questions=[PREDICATE] * MANY + [{}]),
            f"questions[{MANY}]: Object missing required field `type`",
        ),
        (
            request(input=[{"role": "user", "content": [{"type": "x" * 100_000}]}]),
            "input[0].content[0].type: Invalid value 'xxx",
        ),
        (request(input=[{"role": "x" * 100_000, "content": ""}]), "input[0].role: Invalid enum value 'xxx"),
        (request(model=[0] * 100_000), "model: Expected `str`, got `array`"),
        (b'{"safety_identifier":0.%d1}' % 10**4000, "safety_identifier: Expected `str | null`, got `float`"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_faults_in_large_bodies(body: Any, where: str) -> None:
    error = refusal(body)
    assert where in error.message and len(error.message) < 400


@pytest.mark.parametrize("url", [IMAGE + "A" * 100_000, "data:image/" + "x" * 100_000 + ";base64,A"])
def test_large_images(url: str) -> None:
    def image(url: str) -> dict[str, Any]:
        return request(input=[{"role": "user", "content": [{"type": "input_image", "image_url": url}]}])

    assert call_of(image(url)).findings.images == 1
    for broken in (
        url.replace(",", ""),
        url.replace("image", "text"),
        url.replace(";base64", ""),
        url.partition(",")[0] + ",",
    ):
        assert refusal(image(broken)).message == "input: images must be inline base64 image data URLs"


def test_a_long_name_of_a_model_is_not_searched() -> None:
    error = refusal(request(model="m" * 5000))
    assert (error.status, error.code) == (404, "model_not_found")
