# ruff: noqa: E501 (rows of tables)
"""Chat completions: types, ranges and the rules between fields, with their words and their order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.requests import (
    CHAT,
    TOOL,
    USER,
    chat,
    forwarded,
    refusal,
    refused_chat,
    send,
    unparsed_chat,
)

NAMED = {"type": "function", "function": {"name": "f"}}
FUNCTION_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


def schema(**inner: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": inner}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": "x"}, "temperature: invalid type: a string, expected a number at line 1 column"),
        ({"n": 1.0}, "n: invalid type: a number with a fraction or an exponent, expected an integer at"),
        ({"stream": 1}, "stream: invalid type: an integer, expected a boolean at"),
        ({"stop": [1]}, "stop[0]: invalid type: an integer, expected a string at"),
        ({"logit_bias": {"1": "x"}}, "logit_bias.1: invalid type: a string, expected a number at"),
        (
            {"reasoning_effort": True},
            "reasoning_effort: invalid type: a boolean, expected a string or a number",
        ),
        ({"thinking": "on"}, "thinking: invalid type: a string, expected an object at"),
        (
            {"thinking": {"type": "maybe"}},
            "thinking.type: unknown variant `maybe`, expected one of `adaptive`",
        ),
        ({"tools": [{"type": "function"}]}, "tools[0]: missing field `function` at"),
        ({"tools": [{"function": {"name": "f"}}]}, "tools[0]: missing field `type` at"),
        *(
            (
                {"tools": [{"type": "function", "function": {"name": "f", "parameters": one}}]},
                "tools[0].function.parameters: invalid type: ",
            )
            for one in ("{}", [], 5, True)
        ),
        ({"tool_choice": "any"}, "tool_choice: unknown variant `any`, expected one of `auto`, `none`"),
        ({"tool_choice": {"type": "x"}}, "tool_choice.type: unknown variant `x`, expected one of `function`"),
        ({"response_format": {"type": "xml"}}, "response_format.type: unknown variant `xml`"),
        ({"response_format": schema(name="x")}, "response_format.json_schema: missing field `schema` at"),
        ({"response_format": {}}, "response_format: missing field `type` at"),
        ({"seed": 2**63}, "seed: invalid value: the integer does not fit in 64 bits at"),
        ({"seed": -(2**63) - 1}, "seed: invalid value: the integer does not fit in 64 bits at"),
        ({"sampling_seed": 2**64}, "sampling_seed: invalid value: the integer does not fit in 64 bits at"),
        ({"sampling_seed": -1}, "sampling_seed: invalid value: the integer does not fit in 64 bits at"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs: invalid type: an array, expected an object at"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role: unknown variant `robot`"),
        ({"messages": [{"content": "x"}]}, "messages[0]: missing field `role` at"),
        ({"messages": [{"role": 1}]}, "messages[0].role: invalid type: an integer, expected one of `system`"),
        ({"messages": [USER, {"role": "tool", "content": ""}]}, "messages[1]: missing field `tool_call_id`"),
        ({"messages": [{"role": "developer"}]}, "messages[0]: missing field `content` at"),
        (
            {"messages": [{"role": "user", "content": None}]},
            "messages[0].content: invalid type: null, expected",
        ),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content: invalid type: an integer"),
        (
            {"messages": [{"role": "user", "content": ["x"]}]},
            "messages[0].content[0]: invalid type: a string",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
            "messages[0].tool_calls[0]: missing",
        ),
        ({"messages": USER}, "messages: invalid type: an object, expected an array at"),
    ],
)
def test_types(fields: dict[str, Any], message: str) -> None:
    assert unparsed_chat(**fields).startswith(message)


@pytest.mark.parametrize("model", [None, 1, ["m"]])
def test_the_model_is_a_text(model: Any) -> None:
    assert unparsed_chat(model).startswith("model: invalid type: ")


def test_places_are_told_by_line_and_column() -> None:
    error = refusal(CHAT, b'{"model":"m",\n  "messages":[],\n "n": true}')
    assert error.message.endswith("n: invalid type: a boolean, expected an integer at line 3 column 7")
    error = refusal(CHAT, b'{"model":"m",\n "n": tru}')
    assert error.message.endswith("expected value at line 2 column 7")


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b"1"])
def test_the_body_is_an_object(body: bytes) -> None:
    error = refusal(CHAT, body)
    assert error.code == "json_parse_error"
    assert error.message.startswith("Invalid JSON data: ") and "expected an object" in error.message


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_required_fields(missing: str) -> None:
    body = {"model": "m", "messages": [USER]}
    del body[missing]
    assert f"missing field `{missing}` at line 1 column" in refusal(CHAT, body).message


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","model":"m","messages":[{"role":"user","content":"x"}]}',
        b'{"model":"m","m\\u006fdel":"n","messages":[{"role":"user","content":"x"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"x","content":"y"}]}',
        b'{"model":"m","messages":[{"role":"user","role":"user","content":"y"}]}',
        b'{"model":"m","messages":[{"role":"assistant","reasoning":"x","reasoning_content":"y"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"thinking":{"effort":"a","effort":"b"}}',
    ],
)
def test_a_known_member_given_twice_is_refused(body: bytes) -> None:
    error = refusal(CHAT, body)
    assert error.code == "json_parse_error" and "duplicate field `" in error.message


NUMBERS = [
    ("temperature", [-0.5, 2.5, -1e-3, 1e300], [0, 2, 1.5, 2.00000001, -0.0]),
    ("presence_penalty", [-2.5, 2.1], [-2, 2, 0.1]),
    ("frequency_penalty", [-2.5, 2.1], [-2, 2]),
    ("repetition_penalty", [-0.1, 2.1], [0, 2]),
    ("min_p", [-0.1, 1.1], [0, 1]),
    ("top_p", [0, -1, 1.01, 1e-60], [1, 0.01, 1.00000001]),
    ("n", [0, 11, -1], [1, 10]),
    ("max_completion_tokens", [0, -1], [1, 10**30]),
    ("max_tokens", [0, -1], [1]),
    ("top_logprobs", [-1, 21], [0, 20]),
    ("top_k", [0, -2], [-1, 1, 10**6]),
    ("min_tokens", [-1], [0, 5]),
]


@pytest.mark.parametrize(("field", "bad", "good"), NUMBERS, ids=[row[0] for row in NUMBERS])
def test_ranges(field: str, bad: list[float], good: list[float]) -> None:
    for value in bad:
        assert refused_chat(logprobs=True, **{field: value}).startswith(f"{field}: ")
    for value in good:
        chat(logprobs=True, **{field: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 3}, 'temperature: Validation error: range [{"value": Number(3.0), "min": Number(0.0), "max": Number(2.0)}]'),
        ({"n": 0}, 'n: Validation error: range [{"value": Number(0), "min": Number(1), "max": Number(10)}]'),
        ({"max_tokens": 0}, 'max_tokens: Validation error: range [{"value": Number(0), "min": Number(1)}]'),
        ({"min_p": 1.1}, 'min_p: Validation error: range [{"value": Number(1.1), "min": Number(0.0), "max": Number(1.0)}]'),
        ({"top_p": 0}, "top_p: Invalid 'top_p': decimal below minimum value. Expected a value > 0.0, but got 0 instead."),
        ({"top_p": 1.1}, "top_p: Invalid 'top_p': decimal above maximum value. Expected a value <= 1.0, but got 1.1 instead."),
        ({"top_k": 0}, 'top_k: Validation error: top_k must be -1 (disabled) or at least 1 [{"value": Number(0)}]'),
        ({"top_k": -3}, 'top_k: Validation error: top_k must be -1 (disabled) or at least 1 [{"value": Number(-3)}]'),
        ({"stop": list("abcde")}, "stop: Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 instead."),
        ({"stop": ["", *"abcde"]}, "stop: Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 6 instead."),
        ({"stop": ["a", ""]}, 'stop: Validation error: stop sequences cannot be empty [{"value": String("")}]'),
        ({"stop": ""}, 'stop: Validation error: stop sequences cannot be empty [{"value": String("")}]'),
        ({"messages": []}, "messages: Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."),
        ({"messages": [USER, {"role": "user", "content": ""}]}, "messages: Invalid 'messages[1].content': the content of a user message must not be empty."),
        ({"temperature": 5, "n": 0}, 'n: Validation error: range [{"value": Number(0), "min": Number(1), "max": Number(10)}]\ntemperature: Validation error: range [{"value": Number(5.0), "min": Number(0.0), "max": Number(2.0)}]'),
    ],
)  # fmt: skip
def test_words_of_ranges(fields: dict[str, Any], message: str) -> None:
    assert refused_chat(**fields) == message


CHOICE = "Invalid value for 'tool_choice"
RULES: list[tuple[dict[str, Any], str]] = [
    ({"top_logprobs": 3}, "top_logprobs is only allowed when logprobs is enabled"),
    ({"top_logprobs": 3, "logprobs": False, "stream_options": {}}, "top_logprobs is only allowed when logprobs is enabled"),
    ({"stream_options": {}}, "The 'stream_options' parameter is only allowed when 'stream' is enabled"),
    ({"stream_options": {}, "stream": False, "min_tokens": 9, "max_tokens": 1}, "The 'stream_options' parameter is only allowed when 'stream' is enabled"),
    ({"min_tokens": 9, "max_tokens": 5}, "min_tokens cannot exceed max_tokens/max_completion_tokens"),
    ({"min_tokens": 9, "max_tokens": 50, "max_completion_tokens": 5}, "min_tokens cannot exceed max_tokens/max_completion_tokens"),
    ({"regex": "a", "response_format": {"type": "json_object"}}, "cannot use regex constraint with JSON response format"),
    ({"ebnf": "a", "response_format": schema(name="", schema={})}, "cannot use EBNF constraint with JSON response format"),
    ({"regex": "a", "ebnf": "b"}, "only one structured output constraint (regex, ebnf, or json_schema) can be active at a time"),
    ({"response_format": schema(name="", schema=1)}, "JSON schema name cannot be empty"),
    *(({"response_format": schema(name="x", schema=one), "tool_choice": "required"}, "JSON schema 'schema' must be a JSON object") for one in ("{}", [], True, 3, None)),
    *(({"tool_choice": one, "tools": []}, f"{CHOICE}': 'tool_choice' is only allowed when 'tools' are specified.") for one in ("required", NAMED, allowed("some"))),
    ({"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]}, f"{CHOICE}': function 'g' not found in 'tools'."),
    ({"tool_choice": allowed("some"), "tools": [TOOL]}, f"{CHOICE}.mode': must be 'auto' or 'required', got 'some'."),
    ({"tool_choice": allowed("auto", {"type": "function", "name": "g"}), "tools": [TOOL]}, f"{CHOICE}.tools': tool 'g' not found in 'tools'."),
    ({"tool_choice": allowed("auto", {"type": "mcp", "server_label": "g"}), "tools": [TOOL]}, f"{CHOICE}.tools': Chat Completion API only supports function tools, got 'mcp:g'."),
    ({"tool_choice": allowed("auto", {"type": "file_search"}), "tools": [TOOL]}, f"{CHOICE}.tools': Chat Completion API only supports function tools, got 'file_search'."),
    *(({"tool_choice": one, "tools": [{"type": "web_search", "function": {"name": "f"}}]}, f"{CHOICE}': function 'f' not found in 'tools'.") for one in (NAMED,)),
    ({"tool_choice": allowed("auto", {"type": "function", "name": "f"}), "tools": [{"type": "x", "function": {"name": "f"}}]}, f"{CHOICE}.tools': tool 'f' not found in 'tools'."),
    *(({"logit_bias": {"5": 1, one: 1}}, f"Invalid key '{one}' in 'logit_bias': a token ID, a whole number from 0 on, is expected") for one in ("x", "", "-1", "+1", "1.0", "1e3", " 1", "٣")),
    ({"logit_bias": {"x": 1}, "tool_choice": "required"}, f"{CHOICE}': 'tool_choice' is only allowed when 'tools' are specified."),
    ({"logit_bias": {"x": 1}, "messages": [{"role": "root", "content": "x"}, USER]}, "Invalid key 'x' in 'logit_bias': a token ID, a whole number from 0 on, is expected"),
    ({"messages": [{"role": "root", "content": "x"}, USER]}, "invalid role: root"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "rule"), RULES)
def test_rules_between_fields(fields: dict[str, Any], rule: str) -> None:
    assert refused_chat(**fields) == f"__all__: {rule}"


def test_the_order_of_checking() -> None:
    broken = {"temperature": 3, "top_logprobs": 2}
    assert "kimi-k3" not in refused_chat("kimi-k3", **broken)
    assert refused_chat("kimi-k3", **broken).startswith("temperature: ")
    assert "top_logprobs" in refused_chat("kimi-k3", temperature=0.7, top_logprobs=2)
    assert unparsed_chat("kimi-k3", n="x", **broken).startswith("n: ")


GOOD: list[dict[str, Any]] = [
    {"tool_choice": "auto"},
    {"tool_choice": "none"},
    {"tool_choice": "required", "tools": [TOOL]},
    {"tool_choice": NAMED, "tools": [TOOL]},
    {"tool_choice": allowed("required", {"type": "function", "name": "f"}), "tools": [TOOL]},
    {"regex": "a", "response_format": {"type": "text"}},
    {"response_format": schema(name="x", schema={}, strict=True)},
    {"tools": [{"type": "web_search", "function": {"name": "f"}}]},
    {"tools": [{"type": "web_search", "function": {"name": "f"}}], "tool_choice": "required"},
    {"tools": [{"type": "function", "function": {"name": "f", "parameters": None}}]},
    {"logit_bias": {"0": -100, "4294967295": 1.5}},
    {"response_format": schema(name="x", schema={}, description=5, x=1)},
    {"functions": [{"name": "f", "parameters": {}}], "function_call": "auto"},
    {"function_call": {"name": "f"}},
    {"thinking": {"type": "adaptive", "effort": "ultra", "keep": "all", "clear_thinking": True, "x": 1}},
    {"seed": 2**63 - 1, "sampling_seed": 2**64 - 1},
    {"seed": -(2**63), "sampling_seed": 0},
    {"unknown": {"b": 1, "a": [None, True]}, "data_parallel_rank": 1, "alpha": None},
    {"messages": [{"role": "system"}, {"role": "assistant", "content": None, "tool_calls": [FUNCTION_CALL]}]},
    {
        "messages": [
            {"role": "assistant"},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text"}]},
        ]
    },
    {"messages": [{"role": "assistant", "content": "y", "reasoning_content": "why", "refusal": None}]},
    {"messages": [{"role": "function", "name": "f", "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "hologram", "foo": 1}, {"foo": 1}, {"type": 5}]}]},
    {"messages": [{"role": "user", "content": "x", "tool_calls": "not looked at"}]},
]


@pytest.mark.parametrize("fields", GOOD)
def test_what_is_accepted_goes_on_as_sent(fields: dict[str, Any]) -> None:
    assert forwarded(chat(**fields)) == {"model": "m", "messages": [USER], **fields}


OPTIONAL = [
    *(
        "stop",
        "tools",
        "tool_choice",
        "stream",
        "temperature",
        "n",
        "logprobs",
        "top_logprobs",
        "user",
        "rid",
    ),
    *(
        "response_format",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "logit_bias",
        "seed",
        "regex",
    ),
    *("parallel_tool_calls", "top_k", "min_p", "min_tokens", "thinking", "reasoning_effort", "functions"),
    *("chat_template_kwargs", "ignore_eos", "function_call", "sampling_seed", "top_p", "stop_token_ids"),
]


def test_null_means_absent() -> None:
    fields = dict.fromkeys(OPTIONAL)
    assert forwarded(chat(**fields)) == {"model": "m", "messages": [USER], **fields}
    assert chat(stream=None).stream is False
    assert "top_logprobs" in refused_chat(top_logprobs=1, logprobs=None)


def test_the_call() -> None:
    call = send(CHAT, {"model": "al", "messages": [USER], "stream": True}, {"al": "m1"})
    assert (call.model, call.stream, call.dropped, call.surface.endpoint) == ("m1", True, (), "chat")
    assert forwarded(call)["model"] == "m1"
