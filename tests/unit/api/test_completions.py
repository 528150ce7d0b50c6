"""Text completions: types, ranges and rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.requests import COMPLETIONS, PARSING, forwarded, refusal, send


def complete(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": "hi", **fields}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": [1, 2]}, "prompt[0]: invalid type: an integer, expected a string at"),
        ({"prompt": None}, "prompt: invalid type: null, expected a string or an array at"),
        ({"json_schema": {}}, "json_schema: invalid type: an object, expected a string at"),
        ({"logprobs": True}, "logprobs: invalid type: a boolean, expected an integer at"),
        ({"model": None}, "model: invalid type: null, expected a string at"),
    ],
)
def test_types(fields: dict[str, Any], message: str) -> None:
    error = refusal(COMPLETIONS, complete(**fields))
    assert error.code == "json_parse_error"
    assert error.message.removeprefix(PARSING).startswith(message)


@pytest.mark.parametrize("missing", ["model", "prompt"])
def test_required_fields(missing: str) -> None:
    body = complete()
    del body[missing]
    assert f"missing field `{missing}`" in refusal(COMPLETIONS, body).message


@pytest.mark.parametrize(
    ("field", "bad", "good"),
    [
        ("temperature", [-0.5, 2.5], [0, 2]),
        ("top_p", [0, 1.5], [1]),
        ("n", [0, 129], [1, 128]),
        ("best_of", [-1, 21], [0, 20]),
        ("logprobs", [-1, 6], [0, 5]),
        ("max_tokens", [-1], [0, 10**6]),
        ("top_k", [0, -2], [-1, 1]),
        ("min_p", [-0.5, 1.5], [1]),
        ("presence_penalty", [2.5], [-2]),
        ("frequency_penalty", [-2.5], [2]),
        ("repetition_penalty", [2.5], [0]),
        ("stop", [[""], "", list("abcde")], [[], "x", list("abcd")]),
        ("prompt", [[]], ["", [""], ["a", "b"]]),
    ],
)
def test_ranges(field: str, bad: list[Any], good: list[Any]) -> None:
    for value in bad:
        error = refusal(COMPLETIONS, complete(**{field: value}))
        assert error.code == 400 and error.message.startswith(f"{field}: ")
    for value in good:
        assert forwarded(send(COMPLETIONS, complete(**{field: value}))) == complete(**{field: value})


def test_words_of_an_empty_prompt() -> None:
    assert refusal(COMPLETIONS, complete(prompt=[])).message == "prompt: prompt array cannot be empty"


ONE = "only one structured output constraint (regex, ebnf, or json_schema) can be active at a time"


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"stream_options": {}}, "The 'stream_options' parameter is only allowed when 'stream' is enabled"),
        ({"min_tokens": 5, "max_tokens": 2}, "min_tokens cannot exceed max_tokens"),
        ({"regex": "a", "json_schema": "{}"}, ONE),
        ({"ebnf": "a", "json_schema": "{}"}, ONE),
        ({"regex": "a", "ebnf": ""}, ONE),
        ({"best_of": 2, "n": 2}, "best_of must be greater than n"),
        ({"best_of": 2, "stream": True}, "best_of is not supported when stream is enabled"),
    ],
)
def test_rules(fields: dict[str, Any], rule: str) -> None:
    error = refusal(COMPLETIONS, complete(**fields))
    assert (error.code, error.message) == (400, f"__all__: {rule}")


@pytest.mark.parametrize(
    "fields",
    [
        {"best_of": 2, "n": 1},
        {"best_of": 1},
        {"stream": True, "stream_options": {"include_usage": True, "x": 1}},
        {"continue_final_message": 5, "chat_template_kwargs": [], "messages": 1, "tools": "x"},
        {"max_tokens": 3, "min_tokens": 3, "echo": True, "suffix": "s", "seed": 9007199254740993},
        {"stop": None, "n": None, "best_of": None, "prompt": "x", "logprobs": None, "max_tokens": None},
    ],
)
def test_what_is_accepted_goes_on_as_sent(fields: dict[str, Any]) -> None:
    assert forwarded(send(COMPLETIONS, complete(**fields))) == complete(**fields)


def test_profiles_are_for_chat() -> None:
    body = complete(model="kimi-k3", stream=True, temperature=0.7)
    call = send(COMPLETIONS, body)
    assert forwarded(call) == body and call.stream
