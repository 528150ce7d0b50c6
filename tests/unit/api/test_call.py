"""What is read ahead of a large body is what a small one says when it is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.api.call import PROMPTS, Call, decode
from smg.api.surfaces import SURFACES
from smg.errors import GatewayError

BY_ENDPOINT = {surface.endpoint: surface for surface in reversed(SURFACES)}
prompts = (
    st.none() | st.text(max_size=4) | st.lists(st.text(max_size=3) | st.lists(st.integers(0, 9)), max_size=3)
)


@given(
    st.sampled_from(sorted(PROMPTS)),
    st.dictionaries(st.sampled_from(["messages", "prompt", "text", "input_ids", "input", "system"]), prompts),
    st.sampled_from([{}, {"rid": "r"}, {"rid": 1}, {"sampling_params": {"n": 2}}]),
)
def test_looking_ahead_changes_nothing(endpoint: str, prompt: dict[str, Any], more: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", **prompt, **more}).encode()
    asked, ahead = (Call(BY_ENDPOINT[endpoint], "m", False, body) for _ in range(2))
    ahead.look_ahead()
    assert ahead.rid == asked.rid
    for member in PROMPTS[endpoint]:
        assert ahead.spans(member) == asked.spans(member)
    if endpoint == "generate":
        assert ahead.has_many_results == asked.has_many_results


@pytest.mark.parametrize("endpoint", ["chat", "generate", "rerank"])
def test_a_call_without_a_body(endpoint: str) -> None:
    call = Call(BY_ENDPOINT[endpoint], "m", False, None)
    call.look_ahead()
    assert call.rid is None
    assert call.spans(b"messages") is None


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"text": "a"}, False),
        ({"text": ["a"]}, True),
        ({"input_ids": [1, 2]}, False),
        ({"input_ids": [[1], [2]]}, True),
        ({"text": "a", "sampling_params": {"n": 1}}, True),
        ({"text": "x" * 262_141, "sampling_params": {"n": 1}}, True),
    ],
)
def test_streams_of_several_results(more: dict[str, Any], expected: bool) -> None:
    for separators in ((",", ":"), (" , ", " : ")):
        body = json.dumps(more, separators=separators).encode()
        assert Call(BY_ENDPOINT["generate"], None, True, body).has_many_results is expected


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/generate", "/v1/rerank"])
def test_a_model_with_an_endless_name_is_not_found(path: str) -> None:
    surface = next(one for one in SURFACES if one.path == path)
    prompt = {"messages": [{"role": "user", "content": "x"}], "prompt": "x", "text": "x", "query": "x"}
    body = json.dumps({"model": "kimi" * 10_000, **prompt}).encode()
    with pytest.raises(GatewayError) as raised:
        decode(surface, body, str)
    assert raised.value.code == "model_not_found"
    assert len(raised.value.message) < 200
