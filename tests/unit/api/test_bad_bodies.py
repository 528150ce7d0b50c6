"""Hostile bodies on every surface: an error of the right shape, quickly, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.api.call import decode
from smg.api.surfaces import SURFACES, Surface
from smg.errors import GatewayError
from tests.fast.json_texts import texts
from tests.unit.api.requests import CHAT, SYNTAX, chat, forwarded, keep, refusal, send

MESSAGES = '"messages":[{"role":"user","content":"x"}]'


def with_field(field: str) -> bytes:
    return f'{{"model":"m",{MESSAGES},{field}}}'.encode()


SYNTAX_ERRORS = {
    "empty": b"",
    "blank": b" \n",
    "truncated": b'{"model":',
    "nan": with_field('"temperature":NaN'),
    "minus infinity": with_field('"x":-Infinity'),
    "overflow": with_field('"temperature":1e400'),
    "overflow in an unknown field": with_field('"x":[{"y":-1e400}]'),
    "overflowing integer": with_field('"n":' + "9" * 400),
    "trailing comma": with_field('"x":1,'),
    "trailing text": with_field('"x":1') + b" x",
    "raw newline": with_field('"x":"a\nb"'),
    "lone high surrogate": with_field('"x":"\\ud83d"'),
    "lone low surrogate": with_field('"x":"\\udc00"'),
    "swapped surrogates": with_field('"x":"\\ude00\\ud83d"'),
    "bom": b"\xef\xbb\xbf" + with_field('"x":1'),
    "utf-16": with_field('"x":1').decode().encode("utf-16"),
    "not utf-8": with_field('"x":1').replace(b'"x"', b'"\xff"', 1),
    "surrogate in utf-8": with_field('"x":1').replace(b'"x"', b'"\xed\xa0\xbd"', 1),
    "single quotes": b"{'model':'m'}",
    "deep lists": with_field('"x":' + "[" * 10_000 + "]" * 10_000),
    "deep objects": with_field('"x":' + '{"a":' * 10_000 + "1" + "}" * 10_000),
    "deep and open": b"[" * 1_000_000,
}


@pytest.mark.parametrize("body", SYNTAX_ERRORS.values(), ids=SYNTAX_ERRORS.keys())
@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.path)
def test_syntax_errors(surface: Surface, body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        decode(surface, body, keep)
    error = caught.value
    if not error.message.startswith(SYNTAX):
        # types are checked on the way, so a body may be refused for its shape before its end is seen
        assert body.lstrip()[:1] == b"[" or b"messages" in body
        assert surface.endpoint != "chat" or body[:1] == b"["
    assert error.status in (400, 422)
    assert " at line " in error.message


def test_what_looks_bad_and_is_not() -> None:
    body = with_field('"x":"\\ud83d\\ude00\\u0000","y":[' + "[" * 100 + "]" * 100 + '],"z":0e400')
    assert send(CHAT, body).body == body


def test_large_bodies() -> None:
    long = "0123456789abcdef" * 2_000_000
    call = chat(messages=[{"role": "user", "content": long}], max_tokens=5)
    assert forwarded(call)["max_completion_tokens"] == 5
    many = [{"role": "assistant", "content": "x", "reasoning": "y", "tools": 1}] * 100_000
    call = chat(messages=many)
    assert call.dropped and b'"reasoning"' not in (call.body or b"") and b'"tools"' not in (call.body or b"")
    assert refusal(CHAT, {"model": "m", "messages": [*many, {"role": "x"}]}).message.count("messages[100000]")


def test_long_names_are_cut_in_messages() -> None:
    error = refusal(CHAT, {"model": "m", "messages": [{"role": "x" * 10**6}]})
    assert len(error.message) < 500
    error = refusal(CHAT, {"model": "m", "messages": [], "logit_bias": {"x" * 10**6: "x"}})
    assert len(error.message) < 500


def survives(surface: Surface, body: bytes) -> None:
    try:
        call = decode(surface, body, keep)
    except GatewayError as error:
        assert error.status in (400, 422) and error.message
        return
    assert call.body is not None
    json.loads(call.body)


@given(st.sampled_from(SURFACES), st.binary(max_size=80))
def test_any_bytes(surface: Surface, body: bytes) -> None:
    survives(surface, body)


@given(st.sampled_from(SURFACES), texts())
def test_any_json(surface: Surface, case: tuple[Any, bytes]) -> None:
    survives(surface, case[1])


PIECES = [
    *("{", "}", "[", "]", ",", ":", '"', "null", "true", "1", "-0.5", "1e3", " ", "\\u0041", "\\ud83d"),
    *(
        '"model":"kimi-k3"',
        '"model":"glm-5"',
        '"model":"deepseek-v4-pro"',
        '"model":"minimax"',
        '"model":"m"',
    ),
    *(
        '"messages":[',
        '{"role":"user","content":"x"}',
        '{"role":"root","content":""}',
        '"tools":[]',
        MESSAGES,
    ),
    *('"role":"assistant"', '"content":null', '"reasoning":"x"', '"tool_calls":[]', '"tool_call_id":"c"'),
    *('"thinking":{"effort":"low"}', '"chat_template_kwargs":{}', '"stream":true', '"stream_options":null'),
    *('"tool_choice":"required"', '"tool_stream":1', '"max_tokens":1', '"max_completion_tokens":null'),
]


@given(st.sampled_from(SURFACES), st.lists(st.sampled_from(PIECES), max_size=14))
def test_any_mixture_of_pieces(surface: Surface, pieces: list[str]) -> None:
    survives(surface, ("{" + ",".join(pieces) + "}").encode())
    survives(surface, "".join(pieces).encode())
