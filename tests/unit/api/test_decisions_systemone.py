"""Decisions to System One and back: the exact request, and every check on the reply with its message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smg.api.decisions_systemone import InvalidReply, own_error_text, request_body, response_body
from smg.errors import GatewayError
from tests.unit.api.test_decisions import PREDICATE, call_of, request

CHOICE = {"type": "choice", "name": "c", "instructions": "x", "choices": [{"value": "a"}, {"value": False}]}
SCORE = {
    "type": "score",
    "instructions": "x",
    "levels": [{"label": "low"}, {"label": "mid"}, {"label": "high"}],
}
USAGE = {"input_tokens": 7, "output_tokens": 0}
NOUL = {"type": "noul", "noul": 0.25, "x_label_mass": 0.9}
CHOSEN = {"type": "choice", "choice": "o1", "confidence": 0.5, "probabilities": {"o0": 0.25, "o1": 0.75}}
SCORED = {
    "type": "score",
    "score": 1.5,
    "confidence": 1,
    "probabilities": {"0": 0.125, "1": 0.25, "2": 0.625},
}


def reply(*answers: Any, **members: Any) -> bytes:
    content = {
        "model": "w",
        "answers": {f"q{i}": one for i, one in enumerate(answers)},
        "usage": USAGE,
        **members,
    }
    return json.dumps({name: value for name, value in content.items() if value is not ...}).encode()


def mapped(question: Any, content: bytes) -> Any:
    return json.loads(response_body(call_of(request(questions=[question])), content))


def test_the_request() -> None:
    evidence = b'[ {"role":"user", "content":"a\\u0062"} ]'
    questions = [
        PREDICATE,
        {**CHOICE, "choices": [{"value": "a", "description": "d"}, {"value": True}]},
        {**SCORE, "levels": [{"label": "low", "description": ""}, {"label": "high"}]},
    ]
    body = b'{"model":"alias","safety_identifier":"s","input":%b,"questions":%b}'
    asked = request_body(call_of(body % (evidence, json.dumps(questions).encode())))
    assert evidence in asked
    assert json.loads(asked) == {
        "model": "canonical",
        "state": [{"role": "user", "content": "ab"}],
        "questions": {
            "q0": {"type": "noul", "instructions": "On time?"},
            "q1": {
                "type": "choice",
                "instructions": "x",
                "criteria": {"o0": {"value": "a", "description": "d"}, "o1": {"value": True}},
            },
            "q2": {
                "type": "score",
                "instructions": "x",
                "criteria": [{"label": "low", "description": ""}, {"label": "high"}],
            },
        },
    }


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(GatewayError) as raised:
        request_body(call_of(request(questions=[])))
    error = raised.value
    assert (error.status, error.code) == (400, "unsupported_decisions_request")
    assert error.message == "SGLang Decisions requires at least one question"


def test_the_answer() -> None:
    call = call_of(request(questions=[PREDICATE, CHOICE, SCORE]))
    assert json.loads(response_body(call, reply(NOUL, CHOSEN, SCORED))) == {
        "model": "w",
        "answers": [
            {"type": "predicate", "name": None, "probability": 0.25},
            {
                "type": "choice",
                "name": "c",
                "choice": False,
                "confidence": 0.5,
                "probabilities": [{"value": "a", "probability": 0.25}, {"value": False, "probability": 0.75}],
            },
            {
                "type": "score",
                "name": None,
                "score": 1.5,
                "confidence": 1,
                "probabilities": [
                    {"value": 0, "label": "low", "probability": 0.125},
                    {"value": 1, "label": "mid", "probability": 0.25},
                    {"value": 2, "label": "high", "probability": 0.625},
                ],
            },
        ],
        "usage": {
            "input_tokens": 7,
            "output_tokens": 0,
            "total_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def test_equally_likely_choices_and_rounding() -> None:
    even = {**CHOSEN, "choice": "o0", "probabilities": {"o0": 0.5, "o1": 0.5}}
    assert mapped(CHOICE, reply(even))["answers"][0]["choice"] == "a"
    close = {**SCORED, "score": 1.5000005, "probabilities": {"0": 0.125, "1": 0.2500004, "2": 0.625}}
    assert mapped(SCORE, reply(close))["answers"][0]["score"] == 1.5000005
    one = {**SCORE, "levels": [{"label": "only"}]}
    only = {**SCORED, "score": 0, "probabilities": {"0": 1}}
    assert mapped(one, reply(only))["answers"][0]["score"] == 0


@pytest.mark.parametrize(
    ("question", "content", "problem"),
    [
        (PREDICATE, b"hello", "Invalid SGLang Decisions JSON: "),
        (PREDICATE, b"\xff", "Invalid SGLang Decisions JSON: "),
        (PREDICATE, b"[" * 100_000, "Invalid SGLang Decisions JSON: "),
        (PREDICATE, reply(NOUL).replace(b"0.25", b"NaN"), "Invalid SGLang Decisions JSON: "),
        (
            PREDICATE,
            reply(NOUL).replace(b'"noul": 0.25', b'"noul": 0.25, "noul": 0.5'),
            "a member is given twice",
        ),
        (PREDICATE, b"[]", "SGLang Decisions returned invalid or missing model"),
        (PREDICATE, reply(NOUL, model=...), "SGLang Decisions returned invalid or missing model"),
        (PREDICATE, reply(NOUL, model=1), "SGLang Decisions returned invalid or missing model"),
        (PREDICATE, reply(answers=...), "SGLang Decisions returned invalid or missing answers"),
        (PREDICATE, reply(answers=[NOUL]), "SGLang Decisions returned invalid or missing answers"),
        (PREDICATE, reply(), "SGLang Decisions returned an unexpected number of answers"),
        (PREDICATE, reply(NOUL, NOUL), "SGLang Decisions returned an unexpected number of answers"),
        (PREDICATE, reply(answers={"q1": NOUL}), "SGLang Decisions omitted answer q0"),
        (PREDICATE, reply(CHOSEN), "SGLang Decisions returned an unexpected answer type for q0"),
        (CHOICE, reply(NOUL), "SGLang Decisions returned an unexpected answer type for q0"),
        (SCORE, reply([]), "SGLang Decisions returned an unexpected answer type for q0"),
        (PREDICATE, reply({"type": "noul"}), "returned an invalid probability or confidence"),
        (PREDICATE, reply({**NOUL, "noul": 1.0000001}), "returned an invalid probability or confidence"),
        (PREDICATE, reply({**NOUL, "noul": -1e-9}), "returned an invalid probability or confidence"),
        (PREDICATE, reply({**NOUL, "noul": "0.5"}), "returned an invalid probability or confidence"),
        (PREDICATE, reply({**NOUL, "noul": True}), "returned an invalid probability or confidence"),
        (CHOICE, reply({**CHOSEN, "confidence": 2}), "returned an invalid probability or confidence"),
        (CHOICE, reply({k: v for k, v in CHOSEN.items() if k != "confidence"}), "omitted confidence"),
        (SCORE, reply({k: v for k, v in SCORED.items() if k != "confidence"}), "omitted confidence"),
        (CHOICE, reply({**CHOSEN, "probabilities": None}), "returned invalid probabilities for q0"),
        (CHOICE, reply({**CHOSEN, "probabilities": {"o1": 1}}), "returned invalid probabilities for q0"),
        (
            SCORE,
            reply({**SCORED, "probabilities": {"0": 0.5, "1": 0.5}}),
            "returned invalid probabilities for q0",
        ),
        (CHOICE, reply({**CHOSEN, "probabilities": {"a": 0.25, "o1": 0.75}}), "omitted probability q0/o0"),
        (
            CHOICE,
            reply({**CHOSEN, "probabilities": {"o0": 0.2, "o1": 0.7}}),
            "probabilities do not sum to one",
        ),
        (CHOICE, reply({**CHOSEN, "choice": "zz"}), "returned unknown choice zz for q0"),
        (CHOICE, reply({**CHOSEN, "choice": 1}), "returned unknown choice 1 for q0"),
        (CHOICE, reply({**CHOSEN, "choice": "o0"}), "returned a choice that is not most probable for q0"),
        (SCORE, reply({**SCORED, "score": 2.1}), "returned an out-of-range score for q0"),
        (SCORE, reply({**SCORED, "score": -0.1}), "returned an out-of-range score for q0"),
        (SCORE, reply({**SCORED, "score": None}), "returned an out-of-range score for q0"),
        (
            SCORE,
            reply({**SCORED, "score": 1.4}),
            "returned a score inconsistent with its probabilities for q0",
        ),
        (PREDICATE, reply(NOUL, usage=...), "SGLang Decisions omitted usage"),
        (PREDICATE, reply(NOUL, usage={**USAGE, "input_tokens": -1}), "returned invalid input_tokens"),
        (PREDICATE, reply(NOUL, usage={**USAGE, "input_tokens": 7.0}), "returned invalid input_tokens"),
        (PREDICATE, reply(NOUL, usage={"input_tokens": 7}), "returned invalid output_tokens"),
        (PREDICATE, reply(NOUL, usage={**USAGE, "output_tokens": 3}), "unexpectedly reported output tokens"),
    ],
)
def test_a_reply_that_is_no_answer(question: Any, content: bytes, problem: str) -> None:
    with pytest.raises(InvalidReply) as raised:
        mapped(question, content)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":{"message":"bad"},"detail":"x"}', None),
        (b'{"error":"bad"}', '{"error":"bad"}'),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"loc": ["a"]}]}', '[{"loc":["a"]}]'),
        (b'{"detail":null}', "null"),
        (b"plain \xff", "plain \ufffd"),
        (b"", ""),
        (b"x" * 100_000, "x" * 65_536),
    ],
)
def test_what_a_workers_error_says(body: bytes, text: str | None) -> None:
    assert own_error_text(body) == text
