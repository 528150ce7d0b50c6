"""The compiled check against its slow model: msgspec's own decoder of the same types."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg._fast.jsoncheck import Checker, Mismatch
from smg._fast.jsonspan import JsonError
from smg.api.chat_request import CHAT, ROOT_MESSAGE, ChatRequest
from smg.api.completions import CompletionRequest
from smg.api.generate import GenerateRequest
from smg.api.shapes import Builder, describe
from tests.fast.json_texts import Object, read, texts, write


def checker_of(model: type[msgspec.Struct]) -> Checker:
    builder = Builder({}, {})
    builder.add(describe(model))
    return Checker(builder.shapes)


MODELS = {
    model: (checker_of(model), msgspec.json.Decoder(model))
    for model in (ChatRequest, CompletionRequest, GenerateRequest)
}

_FUNCTION = {"name": "f", "description": None, "parameters": {"type": "object"}, "strict": True}
_CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s", "name": "n"},
        {"content": [{"type": "text", "text": "x"}, {"type": 7}], "role": "user"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "r",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "y"},
        {"role": "developer", "content": "d", "tools": [1]},
        {"role": "function", "name": "f", "content": "z"},
        {"role": "root", "content": []},
    ],
    "temperature": 0.5,
    "top_p": 1,
    "n": 3,
    "stop": ["a", "b"],
    "stream": True,
    "stream_options": {"include_usage": True, "x": 1},
    "logit_bias": {"1": 2, "x": -1.5},
    "tools": [{"type": "function", "function": _FUNCTION}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    "reasoning_effort": "low",
    "thinking": {"type": "enabled", "effort": "x"},
    "chat_template_kwargs": {"a": [1]},
    "stop_token_ids": [1, 2],
    "unknown": {"deep": [{}]},
}
_COMPLETION: dict[str, Any] = {"model": "m", "prompt": ["a", "b"], "max_tokens": 3, "logprobs": 2, "n": 1}
_GENERATE: dict[str, Any] = {
    "text": "x",
    "sampling_params": {"temperature": 9, "stop": ["x"], "custom_params": {"a": 1}},
    "input_ids": [[1], [2]],
}
BASES = ((ChatRequest, _CHAT), (CompletionRequest, _COMPLETION), (GenerateRequest, _GENERATE))

_NUMBERS = (0, 1, -1, 5, 2.5, -0.0, 1e300)
_TEXTS = ("", "x", "auto", "none", "enabled", "user")
_LISTS = ([], [1], ["x"], [""], [None])
_OBJECTS = ({}, {"x": 1}, {"type": "text"}, {"type": "function", "function": {"name": "f"}})
simple = st.sampled_from((None, True, False, *_NUMBERS, *_TEXTS, *_LISTS, *_OBJECTS))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside a value."""
    found = [path] if path else []
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            found += places(one, (*path, key))
    return found


@st.composite
def changed(draw: st.DrawFn) -> tuple[type[msgspec.Struct], Any]:
    """A good request with some of its parts taken out or replaced."""
    model, base = draw(st.sampled_from(BASES))
    value = json.loads(json.dumps(base))
    for _ in range(draw(st.integers(0, 3))):
        *path, last = draw(st.sampled_from(places(value)))
        held = value
        for key in path:
            held = held[key]
        if draw(st.booleans()):
            held[last] = json.loads(json.dumps(draw(simple)))
        else:
            del held[last]
        if not places(value):
            break
    return model, value


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return Object((key, as_object(one)) for key, one in value.items())
    return [as_object(one) for one in value] if isinstance(value, list) else value


def is_accepted(model: type[msgspec.Struct], text: bytes) -> bool:
    checker, _ = MODELS[model]
    try:
        return not checker.check(text).breached
    except Mismatch as error:
        assert 0 <= error.position <= len(text)
        return False


@given(changed(), st.data())
def test_accepts_what_msgspec_accepts(case: tuple[type[msgspec.Struct], Any], data: st.DataObject) -> None:
    model, value = case
    text = data.draw(st.composite(lambda draw: write(draw, as_object(value)))()).encode()
    try:
        MODELS[model][1].decode(text)
        expected = True
    except msgspec.ValidationError:
        expected = False
    assert is_accepted(model, text) == expected


@given(texts(), st.sampled_from([one for one, _ in BASES]))
def test_any_json_is_read_or_refused(case: tuple[Any, bytes], model: type[msgspec.Struct]) -> None:
    is_accepted(model, case[1])


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(text: bytes) -> None:
    try:
        CHAT._checker.check(text)
    except (JsonError, Mismatch):
        pass


@given(texts())
def test_members_of_the_outermost_object_are_all_listed(case: tuple[Any, bytes]) -> None:
    text = b'{"model":"m","x":' + case[1] + b',"messages":[{"role":"user","content":"x"}]}'
    found = CHAT.read(text)
    assert list(found.names()) == [b"model", b"x", b"messages"]
    assert read(found.raw(b"x") or b"") == case[0]
    assert found.value(CHAT.slots["model"]) == b'"m"'


def test_marks_tell_where() -> None:
    text = b'{"messages":[{"role":"user","content":"x"},{"content":"x","role":"root"}],"model":"m"}'
    found = CHAT.read(text)
    assert found.marked == ROOT_MESSAGE
    assert [(item, text[holder : holder + 10]) for _, item, holder, *_ in found.marks(ROOT_MESSAGE)] == [
        (1, b'{"content"')
    ]


def test_the_last_part_of_a_text_can_be_checked_alone() -> None:
    checker, _ = MODELS[CompletionRequest]
    text = b'[{"model":"m","prompt":"x"}, {"model":1}]'
    assert checker.fits(text, 1, 27)
    assert not checker.fits(text, 29, 40)
    with pytest.raises(ValueError):
        checker.fits(text, 0, 99)


def test_a_type_with_too_many_members_is_refused() -> None:
    wide = msgspec.defstruct("Wide", [(f"field{i}", int) for i in range(65)])
    with pytest.raises(ValueError, match="too much"):
        checker_of(wide)
