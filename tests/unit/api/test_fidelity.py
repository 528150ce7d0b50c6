"""The worker's bytes are the client's with the smallest edits: editing the text is editing the value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.api.chat_request import CHAT as CONTRACT
from smg.errors import GatewayError
from tests.fast.json_texts import Object, names, read, texts, values
from tests.unit.api.requests import CHAT, COMPLETIONS, GENERATE, chat, forwarded, send

SPACED = (
    b'{ "model" : "m1",  "temperature": 0.70, "messages":[ {"content":"h\\u00e9llo","role":"user"} ],'
    b' "stop" : null, "x": [1.50, 1e2, -0.0, 1e-7, 123456789012345678901234567890], "x":1, "x":2 }\n'
)


def test_a_request_that_needs_no_edit_is_the_very_same() -> None:
    assert send(CHAT, SPACED).body is SPACED


def test_the_alias_is_the_only_edit() -> None:
    body = send(CHAT, SPACED, {"m1": 'c"é'}).body
    assert body == SPACED.replace(b'"m1"', '"c\\"é"'.encode())


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b'"max_tokens" : 7', b'"max_completion_tokens" : 7'),
        (b'"max\\u005ftokens":7', b'"max_completion_tokens":7'),
        (b'"max_tokens":7, "max_completion_tokens":9', b'"max_tokens":7, "max_completion_tokens":9'),
        (b'"max_tokens":7, "max_completion_tokens":null', b'"max_completion_tokens":7'),
        (b'"max_completion_tokens": null , "max_tokens":7', b'"max_completion_tokens": 7'),
        (b'"max_tokens":null', b'"max_tokens":null'),
        (b'"reasoning_effort":3', b'"reasoning_effort":"3"'),
        (b'"reasoning_effort":0.50', b'"reasoning_effort":"0.5"'),
        (b'"reasoning_effort":1e3', b'"reasoning_effort":"1000.0"'),
        (b'"reasoning_effort":1e30', b'"reasoning_effort":"1e+30"'),
        (b'"reasoning_effort":1.5e-5', b'"reasoning_effort":"0.000015"'),
        (b'"reasoning_effort":-0.0000001', b'"reasoning_effort":"-1e-7"'),
        (b'"reasoning_effort":-0', b'"reasoning_effort":"-0.0"'),
        (b'"reasoning_effort":-9223372036854775808', b'"reasoning_effort":"-9223372036854775808"'),
        (b'"reasoning_effort":18446744073709551615', b'"reasoning_effort":"18446744073709551615"'),
        (b'"reasoning_effort":18446744073709551616', b'"reasoning_effort":"1.8446744073709552e+19"'),
        (b'"reasoning_effort":"3"', b'"reasoning_effort":"3"'),
        (b'"tool_stream":1', b'"tool_stream":1'),
    ],
)  # fmt: skip
def test_edits_of_every_chat(sent: bytes, wanted: bytes) -> None:
    front, back = b'{"messages":[{"role":"user","content":"x"}], ', b' ,"model":"m"}'
    assert send(CHAT, front + sent + back).body == front + wanted + back


def test_reasoning_goes_out_as_reasoning_content() -> None:
    messages = (
        b'[{"role":"assistant", "reasoning" : "why"},{"role":"user","content":"x","reasoning":1},'
        b'{"role":"assistant","reasoning":null}]'
    )
    body = b'{"model":"m","messages":' + messages + b"}"
    assert send(CHAT, body).body == body.replace(b'"reasoning" :', b'"reasoning_content" :')


def test_message_tools_of_another_family_are_dropped() -> None:
    body = (
        b'{"model":"m","messages":[{"tools":"bad", "role":"system","content":"x"},'
        b'{"role":"user","content":"x", "tools" :[{"a":1}]},{"role":"user","tools":null,"content":"x"}]}'
    )
    call = send(CHAT, body)
    assert call.body == (
        b'{"model":"m","messages":[{"role":"system","content":"x"},'
        b'{"role":"user","content":"x"},{"role":"user","tools":null,"content":"x"}]}'
    )
    assert call.dropped == ("messages[].tools",)


def test_completions_and_generate_are_only_given_the_model() -> None:
    body = b'{"model":"a", "prompt":"x","max_tokens":3,"reasoning_effort":3 }'
    assert send(COMPLETIONS, body, {"a": "b"}).body == body.replace(b'"a"', b'"b"')
    body = b'{"text":"x","sampling_params":{"custom_params":{"z":1.0},"x":1}, "model" :"a"}'
    assert send(GENERATE, body, {"a": "b"}).body == body.replace(b'"a"', b'"b"')


# ---- any request, against the same edits of its value

ASSISTANTS = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={"reasoning": st.none() | st.text(max_size=3), "content": st.text(max_size=3), "tools": values},
)
OTHERS = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "root", "developer"]), "content": st.just("x")},
    optional={
        "tools": st.none() | st.just("bad") | st.just([]),
        "name": st.text(max_size=3),
        "extra": values,
    },
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.sampled_from([None, 5]),
        "max_completion_tokens": st.sampled_from([None, 6]),
        "reasoning_effort": st.sampled_from([None, "low", "medium", 3, 50]),
        "temperature": st.sampled_from([None, 1, 0.6]),
        "top_p": st.sampled_from([None, 0.95]),
        "stream": st.sampled_from([None, True, False]),
        "tool_stream": values,
        "thinking": st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from([None, "enabled", "disabled"]),
                "effort": st.sampled_from([None, "minimal", "high"]),
                "clear_thinking": st.sampled_from([None, True]),
            },
        ),
        "chat_template_kwargs": st.none()
        | st.fixed_dictionaries(
            {},
            optional={"thinking": st.sampled_from([None, True]), "clear_thinking": st.none(), "x": values},
        ),
    },
)
KNOWN = {*CONTRACT.slots, "tool_stream"}
MODELS = ("m", "moonshotai/kimi-k2", "kimi-k3", "MiniMax-M2", "zai/GLM-4.6", "deepseek-v4-pro")


@st.composite
def requests(draw: st.DrawFn) -> Object:
    """A chat request: members in any order, unknown ones anywhere and perhaps twice."""
    messages = [
        shuffled(draw, message) for message in draw(st.lists(ASSISTANTS | OTHERS, min_size=1, max_size=5))
    ]
    fields = [("model", draw(st.sampled_from(MODELS))), ("messages", messages)]
    fields += [(name, shuffled(draw, one)) for name, one in draw(FIELDS).items()]
    unknown = draw(st.lists(st.tuples(names.filter(lambda name: name not in KNOWN), values), max_size=3))
    return Object(draw(st.permutations(fields + unknown)))


def shuffled(draw: st.DrawFn, value: Any) -> Any:
    return Object(draw(st.permutations(list(value.items())))) if isinstance(value, dict) else value


def is_set(value: Object, name: str) -> bool:
    return dict(value).get(name) is not None


def put(value: Object, name: str, new: Any) -> Object:
    """Set a member where it stands, or at the end."""
    if name not in dict(value):
        return Object((*value, (name, new)))
    return Object((key, new if key == name else one) for key, one in value)


def without(value: Object, *unwanted: str) -> Object:
    return Object((name, one) for name, one in value if name not in unwanted)


def put_inside(value: Object, field: str, name: str, new: Any) -> Object:
    return put(value, field, put(dict(value).get(field) or Object(), name, new))


def edited(value: Object) -> Object:
    """The edits as the specification tells them, made on the value."""
    model = dict(value)["model"]
    held = dict(value)
    if is_set(value, "max_tokens") and not is_set(value, "max_completion_tokens"):
        if "max_completion_tokens" in held:
            value = without(put(value, "max_completion_tokens", held["max_tokens"]), "max_tokens")
        else:
            value = Object(("max_completion_tokens" if k == "max_tokens" else k, v) for k, v in value)
    effort = held.get("reasoning_effort")
    if isinstance(effort, int):
        value = put(value, "reasoning_effort", str(effort))
    messages = [edited_message(one, "kimi" in model) for one in held["messages"]]
    if model == "MiniMax-M2":
        messages = moved(messages)
    value = put(value, "messages", messages)
    return PROFILES.get(model, lambda same: same)(value)


def edited_message(message: Object, keeps_tools: bool) -> Object:
    role = dict(message)["role"]
    if role == "assistant" and is_set(message, "reasoning"):
        message = Object(("reasoning_content" if k == "reasoning" else k, v) for k, v in message)
    declares = keeps_tools and role in ("system", "developer")
    if is_set(message, "tools") and not declares:
        message = without(message, "tools")
    return message


def moved(messages: list[Object]) -> list[Object]:
    roots = [put(one, "role", "system") for one in messages if dict(one)["role"] == "root"]
    return roots + [one for one in messages if dict(one)["role"] != "root"]


def with_usage(value: Object) -> Object:
    return (
        put(value, "stream_options", Object([("include_usage", True)]))
        if is_set(value, "stream") and dict(value)["stream"]
        else value
    )


def with_defaults(value: Object, **defaults: Any) -> Object:
    for name, default in defaults.items():
        if not is_set(value, name):
            value = put(value, name, default)
    return value


def glm(value: Object) -> Object:
    cleared = dict(dict(value).get("thinking") or ()).get("clear_thinking")
    variables = dict(value).get("chat_template_kwargs") or Object()
    if cleared is not None and "clear_thinking" not in dict(variables):
        value = put_inside(value, "chat_template_kwargs", "clear_thinking", cleared)
    return with_defaults(without(value, "tool_stream"), temperature=1.0, top_p=0.95)


def deepseek(value: Object) -> Object:
    renamed = {"minimal": "low", "medium": "high", "xhigh": "high"}
    held = dict(value)
    thinking = dict(held.get("thinking") or ())
    effort = thinking.get("effort") or held.get("reasoning_effort")
    if held.get("reasoning_effort") in renamed:
        value = put(value, "reasoning_effort", renamed[held["reasoning_effort"]])
    if thinking.get("effort") in renamed:
        value = put_inside(value, "thinking", "effort", renamed[thinking["effort"]])
    if dict(held.get("chat_template_kwargs") or ()).get("thinking") is None:
        on = thinking["type"] == "enabled" if thinking.get("type") else effort != "none"
        value = put_inside(value, "chat_template_kwargs", "thinking", on)
    return value


PROFILES = {
    "moonshotai/kimi-k2": with_usage,
    "kimi-k3": lambda value: with_defaults(
        with_usage(value), temperature=1.0, top_p=0.95, presence_penalty=0, frequency_penalty=0, n=1
    ),
    "zai/GLM-4.6": glm,
    "deepseek-v4-pro": deepseek,
}


@given(texts(requests()))
def test_an_edit_of_the_text_is_the_edit_of_the_value(case: tuple[Object, bytes]) -> None:
    value, text = case
    try:
        call = send(CHAT, text)
    except GatewayError as error:
        assert error.code == 400
        return
    assert read(call.body or b"") == edited(value)


def test_edits_that_meet() -> None:
    """Removals and additions at the same comma."""
    for fields in ({"tool_stream": 1, "max_tokens": 3, "max_completion_tokens": None}, {"tool_stream": 1}):
        body = {**fields, "model": "glm-5", "messages": [{"role": "user", "content": "x"}]}
        assert "tool_stream" not in forwarded(send(CHAT, body))
        body = {"model": "glm-5", "messages": [{"role": "user", "content": "x"}], **fields}
        assert forwarded(send(CHAT, body))["top_p"] == 0.95
    assert forwarded(chat("glm-5", tool_stream=True))["temperature"] == 1.0
