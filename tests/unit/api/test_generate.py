"""`/generate`: what does not fit is answered with 422 in plain text, everything else goes on as sent."""

from __future__ import annotations

from typing import Any

import pytest

from smg.errors import Shape
from tests.unit.api.requests import GENERATE, forwarded, refusal, send


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"sampling_params": {"custom_params": 5}},
            "sampling_params.custom_params: invalid type: an integer",
        ),
        (
            {"sampling_params": {"custom_params": [1]}},
            "sampling_params.custom_params: invalid type: an array",
        ),
        ({"sampling_params": "x"}, "sampling_params: invalid type: a string"),
        (
            {"sampling_params": {"max_new_tokens": 1.5}},
            "sampling_params.max_new_tokens: invalid type: a number",
        ),
        ({"text": 5}, "text: invalid type: an integer, expected a string or an array"),
        ({"input_ids": "x"}, "input_ids: invalid type: a string, expected an array"),
        ({"stream": "yes"}, "stream: invalid type: a string, expected a boolean"),
        ({"model": 1}, "model: invalid type: an integer, expected a string"),
        (b'{"text":"a","text":"b"}', "duplicate field `text`"),
        (b"[]", "invalid type: an array, expected an object"),
    ],
)
def test_what_does_not_fit(body: Any, message: str) -> None:
    error = refusal(GENERATE, body)
    assert (error.status, error.shape) == (422, Shape.PLAIN)
    assert error.message.startswith(f"Failed to deserialize the JSON body into the target type: {message}")
    assert " at line 1 column " in error.message


@pytest.mark.parametrize("body", [b"", b"{", b"{'a':1}", b'{"text":"\\ud83d"}', b'{"x":NaN}'])
def test_what_is_not_json(body: bytes) -> None:
    error = refusal(GENERATE, body)
    assert (error.status, error.code) == (400, "json_parse_error")


@pytest.mark.parametrize(
    "body",
    [
        {"text": "hi"},
        {"text": ["a", "b"], "sampling_params": [{"n": 1}, {}]},
        {"input_ids": [[1, 2], [3]], "stream": None, "model": None, "rid": ["a"]},
        {"text": "x", "sampling_params": {"temperature": 99, "top_p": -3, "n": -1, "unknown": {"a": 1}}},
        {"text": "x", "sampling_params": {"custom_params": {"z": 1, "a": {"k": [1, 0.5, None]}}}},
        {"text": "x", "sampling_params": {"custom_params": {}}},
        {"text": "x", "sampling_params": {"custom_params": None}},
    ],
)
def test_what_fits_goes_on_as_sent(body: dict[str, Any]) -> None:
    call = send(GENERATE, body)
    assert forwarded(call) == body and call.model is None and not call.stream
