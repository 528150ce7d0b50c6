"""The request of Decisions: its schema, its limits, members nobody knows, and the bytes that are sent on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smg.api.decisions import Decisions, decode
from smg.api.decisions_scoring import unsupported
from smg.api.surfaces import SURFACES
from smg.errors import GatewayError

SURFACE = next(one for one in SURFACES if one.endpoint == "decisions")
PREDICATE = {"type": "predicate", "instructions": "On time?"}
IMAGE = "data:image/png;base64,AAAA"


def call_of(body: bytes | dict[str, Any]) -> Decisions:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode(SURFACE, text, lambda name: {"alias": "canonical"}.get(name, name))


def request(**members: Any) -> dict[str, Any]:
    return {"model": "m", "input": "late", "questions": [PREDICATE], **members}


def parts(*given: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(given)}]


def refusal(body: bytes | dict[str, Any]) -> GatewayError:
    with pytest.raises(GatewayError) as raised:
        call_of(body)
    return raised.value


def test_the_worker_gets_the_clients_bytes() -> None:
    body = b' {"x":1e-7,\n"model" : "m", "input":"e","questions":[ ],"big":12345678901234567890123,"x":-0.0}'
    call = call_of(body)
    assert (call.body, call.model, call.stream) == (body, "m", False)
    assert body[slice(*call.evidence)] == b'"e"'
    assert call.findings.extension == ("x", "request")


def test_an_alias_is_the_only_edit() -> None:
    body = b'{"n":1.0, "mod\\u0065l": "alias" ,"input":[],"questions":[],"stream":true}'
    assert call_of(body).body == body.replace(b'"alias"', b'"canonical"')


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (request(model=1), "model: Expected `str`"),
        (request(input=1), "input: Expected `str | array`"),
        (request(questions={}), "questions: Expected `array`"),
        (request(safety_identifier=1), "safety_identifier: Expected"),
        (
            request(input=[{"role": "assistant", "content": "x"}]),
            "input[0].role: Invalid enum value 'assistant'",
        ),
        (request(input=[{"role": "user", "content": "x", "type": "note"}]), "input[0].type"),
        (request(input=[{"role": "user", "content": "x", "type": None}]), "input[0].type"),
        (request(input=[{"role": "user"}]), "input[0]: Object missing required field `content`"),
        (
            request(input=parts({"type": "input_audio"})),
            "input[0].content[0].type: Invalid value 'input_audio'",
        ),
        (request(input=parts({"type": "input_image", "file_id": "f"})), "missing required field `image_url`"),
        (request(input=parts({"type": "input_image", "image_url": IMAGE, "detail": "huge"})), "detail"),
        (
            request(questions=[{"type": "guess", "instructions": "x"}]),
            "questions[0].type: Invalid value 'guess'",
        ),
        (
            request(questions=[PREDICATE, {"type": "predicate"}]),
            "questions[1]: Object missing required field",
        ),
        (request(questions=[{**PREDICATE, "name": None}]), "questions[0].name: Expected `str`"),
        (request(questions=[{"type": "choice", "instructions": "x"}]), "missing required field `choices`"),
        (request(questions=[{"type": "score", "instructions": "x"}]), "missing required field `levels`"),
        (
            request(questions=[{"type": "choice", "instructions": "x", "choices": [{"value": 1}]}]),
            "questions[0].choices[0].value: Expected `bool | str`, got `int`",
        ),
        (
            request(questions=[{"type": "score", "instructions": "x", "levels": [{"label": True}]}]),
            "questions[0].levels[0].label",
        ),
        ({"input": "x", "questions": []}, "Object missing required field `model`"),
        ({"model": "m", "questions": []}, "Object missing required field `input`"),
        (b"[]", "the body must be a JSON object"),
    ],
)
def test_what_does_not_fit_the_schema(body: Any, where: str) -> None:
    error = refusal(body)
    assert (error.status, error.code) == (400, "json_parse_error")
    assert error.message.startswith(
        "Invalid JSON data: Failed to deserialize the JSON body into the target type: "
    )
    assert where in error.message
    assert " at line 1 column " in error.message


@pytest.mark.parametrize(
    "optional",
    [
        {"safety_identifier": None},
        {"input": parts({"type": "input_image", "image_url": IMAGE, "detail": None})},
    ],
)
def test_members_that_may_be_null(optional: dict[str, Any]) -> None:
    call_of(request(**optional))


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"model":NaN}', b"\xef\xbb\xbf{}", b'{"a":"\\ud800"}', b"[" * 10_000]
)
def test_what_is_no_json(body: bytes) -> None:
    error = refusal(body)
    assert (error.status, error.code) == (400, "json_parse_error")
    assert error.message.startswith("JSON syntax error: Failed to parse the request body as JSON: ")


def test_the_place_of_a_mismatch_is_told() -> None:
    error = refusal(b'{"model":"m",\n "input":"x",\n  "questions":7}')
    assert error.message.endswith(" at line 3 column 15")


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","model":"m","input":"x","questions":[]}',
        b'{"model":"m","input":[{"role":"user","content":"a","content":"b"}],"questions":[]}',
        b'{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"","text":""}]}],"questions":[]}',
        b'{"model":"m","input":"x","questions":[{"type":"predicate","instructions":"a","instructi\\u006fns":"b"}]}',
        b'{"model":"m","input":"x","questions":[{"type":"predicate","type":"predicate","instructions":"a"}]}',
        b'{"model":"m","input":"x","questions":[{"type":"choice","instructions":"a","choices":[{"value":1,"value":true}]}]}',
        b'{"model":"m","input":"x","questions":[{"type":"score","instructions":"a","levels":[{"label":"","label":""}]}]}',
    ],
)
def test_a_known_member_given_twice_is_refused(body: bytes) -> None:
    error = refusal(body)
    assert error.code == "json_parse_error"
    assert "duplicate field" in error.message or "Expected" in error.message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (request(model="m" * 1_048_577), "model: must be at most 1048576 characters"),
        (request(safety_identifier="é" * 129), "safety_identifier: must be at most 128 characters"),
        (
            request(questions=[{**PREDICATE, "name": "n" * 1_048_577}]),
            "questions: must be at most 1048576 characters",
        ),
        (
            request(
                questions=[{"type": "score", "instructions": "", "levels": [{"label": "n" * 1_048_577}]}]
            ),
            "questions: must be at most 1048576 characters",
        ),
        (
            request(input=parts({"type": "input_text", "text": "x" * 10_485_761})),
            "input: must be at most 10485760 characters",
        ),
        (
            request(input=parts(*[{"type": "input_image", "image_url": IMAGE}] * 129)),
            "input: at most 128 images are allowed per request",
        ),
        (
            request(model="m" * 1_048_577, safety_identifier="x" * 129),
            "model: must be at most 1048576 characters\nsafety_identifier: must be at most 128 characters",
        ),
    ],
)
def test_limits(body: dict[str, Any], message: str) -> None:
    error = refusal(body)
    assert (error.status, error.code, error.message) == (400, 400, message)


def test_plain_text_is_not_limited() -> None:
    call_of(request(input="x" * 10_485_761, safety_identifier="é" * 128))


@pytest.mark.parametrize(
    "url",
    ["https://h/y.png", "data:image/png;base64", "data:image/png;base64,", "data:image/;base64,AA",
     "data:image;base64,AA", "data:text/plain;base64,AA", "data:image/png,AA", ";base64,AA", ""],
)  # fmt: skip
def test_images_must_be_inline(url: str) -> None:
    error = refusal(request(input=parts({"type": "input_image", "image_url": url})))
    assert (error.code, error.message) == (400, "input: images must be inline base64 image data URLs")


@pytest.mark.parametrize("url", [IMAGE, "data:image/svg+xml;charset=x;base64,not base64"])
def test_images_are_not_decoded(url: str) -> None:
    call_of(request(input=parts({"type": "input_image", "image_url": url})))


CHOICE = {"type": "choice", "instructions": "x", "choices": [{"value": "a"}]}
SCORE = {"type": "score", "instructions": "x", "levels": [{"label": "a"}]}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (request(new=1), 'cannot honor field "new" on request'),
        (
            request(input=[{"role": "user", "content": "x", "n": 1}]),
            'cannot honor field "n" on input message',
        ),
        (request(input=parts({"type": "input_text", "text": "x", "n": 1})), 'field "n" on input text part'),
        (
            request(questions=[{**PREDICATE, "choices": []}]),
            'cannot honor field "choices" on predicate question',
        ),
        (request(questions=[{**CHOICE, "n": 1}]), 'cannot honor field "n" on choice question'),
        (request(questions=[{**SCORE, 'a"b': 1}]), 'cannot honor field "a\\"b" on score question'),
        (request(questions=[{**CHOICE, "choices": [{"value": "a", "n": 1}]}]), 'field "n" on choice option'),
        (request(questions=[{**SCORE, "levels": [{"label": "a", "n": 1}]}]), 'field "n" on score level'),
        (
            request(input=parts({"type": "input_image", "image_url": IMAGE, "n": 1})),
            "SGLang 0.5.21 Decisions does not support image input",
        ),
        (request(input=" \n"), "SGLang Decisions requires nonempty text input"),
        (request(input=[]), "SGLang Decisions requires nonempty text input"),
        (request(input=parts({"type": "input_text", "text": "\t"})), "requires nonempty text input"),
        (request(questions=[]), "SGLang Decisions requires at least one question"),
        (request(questions=[PREDICATE, {**PREDICATE, "instructions": " "}]), "question 1 requires nonempty"),
        (request(questions=[{**CHOICE, "choices": []}]), "question 0 requires 1 to 255 choices"),
        (request(questions=[{**CHOICE, "choices": [{"value": "a"}] * 256}]), "requires 1 to 255 choices"),
        (request(questions=[{**SCORE, "levels": [{"label": "a"}] * 11}]), "requires 1 to 10 score levels"),
    ],
)
def test_what_label_scoring_cannot_serve(body: dict[str, Any], problem: str) -> None:
    assert problem in (unsupported(call_of(body).findings) or "")


@pytest.mark.parametrize(
    "body",
    [
        request(safety_identifier="x"),
        request(input=parts({"type": "input_text", "text": " "}, {"type": "input_text", "text": "x"})),
        request(
            questions=[
                {**CHOICE, "choices": [{"value": True}] * 255},
                {**SCORE, "levels": [{"label": ""}] * 10},
            ]
        ),
    ],
)
def test_what_label_scoring_serves(body: dict[str, Any]) -> None:
    assert unsupported(call_of(body).findings) is None
