# ruff: noqa: E501 (rows of tables)
"""Provider profiles: selection, every rule with its words, every default and rewrite."""

from __future__ import annotations

from typing import Any

import pytest

from smg.api.profiles.table import BASELINE, FAMILIES, select
from tests.unit.api.requests import TOOL, USER, chat, forwarded, refused_chat, send

KIMI, K3, MINIMAX = "moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K3", "MiniMaxAI/MiniMax-M3"
GLM, GLM53 = "zai-org/GLM-4.7", "zai-org/GLM-5.3"
V4, V41 = "deepseek-ai/deepseek-v4-pro", "deepseek-ai/deepseek-v4.1-flash"


class _Named:
    """As much of a draft as selection looks at."""

    def __init__(self, model: str) -> None:
        self.model = model


@pytest.mark.parametrize(
    ("profile", "models"),
    [
        ("KimiK3", ["kimi-k3", "kimi_k3-b", "a/KIMI-K3x/c", "/models/kimi-k3", "moonshotai/Kimi-K3"]),
        ("Kimi", ["kimi", "Kimi-K2", "kimi-k-3", "org/MoonShot-v1", "a/b/kimi"]),
        ("MiniMax", ["MiniMax-Text", "minimax", "abab7-chat", "x/ABAB"]),
        ("Glm53", ["glm-5.3", "GLM5.3-x", "glm_5.3", "glm-5-3", "glm5-3-y", "zai-org/GLM-5.3-air"]),
        ("Glm", ["glm-4", "GLM-5-air", "zai", "z-ai/anything", "glm_5-3", "zai-org/GLM-4.7"]),
        ("DeepSeekV4", ["deepseek-flash", "deepseek-v4-flash", "DeepSeek-V4-Pro", "x/deepseek-v4-flash/y"]),
        ("DeepSeekV41", ["deepseek-v4.1-flash", "a/DEEPSEEK-V4.1-FLASH"]),
        # The first segment with a marker tells the family, whatever the others say.
        ("Kimi", ["kimi/glm-5.3", "x/moonshot/minimax", "kimi-k2/deepseek-v4-pro"]),
        ("MiniMax", ["minimax/kimi-k3", "abab/glm"]),
        ("Glm", ["glm/minimax", "zai/kimi-k3"]),
        ("DeepSeekV4", ["deepseek-v4-pro/kimi", "deepseek-flash/glm-5.3"]),
        # Within a family, any segment may narrow it.
        ("KimiK3", ["kimi/kimi-k3", "kimi-k3/kimi"]),
        ("Glm53", ["zai-org/x/glm-5.3", "glm-5.3/kimi-k3"]),
        ("DeepSeekV41", ["deepseek-v4-pro/deepseek-v4.1-flash", "deepseek-v4.1-flash/deepseek-flash"]),
        (
            "Profile",
            [
                "",
                "m1",
                "THUDM/chatglm3-6b",
                "my-kimi",
                "deepseek-v3",
                "deepseek-v4-flash-x",
                "deepseek-v4-pro\n",
                "\u212aimi",
            ],
        ),
    ],
)
def test_selection(profile: str, models: list[str]) -> None:
    for model in models:
        assert type(select(_Named(model))).__name__ == profile, model  # type: ignore[arg-type]


def test_every_profile_of_the_table_can_be_selected() -> None:
    assert {type(one).__name__ for family in FAMILIES for one in family} == {
        "KimiK3",
        "Kimi",
        "MiniMax",
        "Glm53",
        "Glm",
        "DeepSeekV41",
        "DeepSeekV4",
    }
    assert all(BASELINE not in family for family in FAMILIES)


def test_the_name_as_sent_selects() -> None:
    body = {"model": "plain", "messages": [USER], "temperature": 0.7}
    assert forwarded(send("/v1/chat/completions", body, {"plain": "kimi-k3"})) == {**body, "model": "kimi-k3"}
    body = {"model": "kimi-x", "messages": [USER], "stream": True}
    assert forwarded(send("/v1/chat/completions", body, {"kimi-x": "m1"}))["stream_options"] == {
        "include_usage": True
    }


def declaring(role: str, tools: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "tools": tools, **more}, USER]}


def tool(name: str, kind: str = "function") -> dict[str, Any]:
    return {"type": kind, "function": {"name": name}}


def calls(*ids: str, arguments: str | None = "{}") -> dict[str, Any]:
    listed = [
        {"id": one, "type": "function", "function": {"name": "f", "arguments": arguments}} for one in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def answer(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "r"}


def history(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [USER, *messages, USER]}


NAME_RULE = "tool name must match [A-Za-z_][A-Za-z0-9_]* and be at most 256 characters"
ADAPTIVE = {"thinking": {"type": "adaptive"}}
V4_EFFORT = "DeepSeek V4 reasoning effort must be none, low, high or max (minimal, medium and xhigh aliases are accepted)"
V41_EFFORT = "DeepSeek V4.1 reasoning effort must be none, low, high, xhigh, max or an integer budget from 1 to 100 (minimal and medium aliases are accepted)"
FORCED = "DeepSeek V4 requires thinking to be disabled for forced tool choice"
NAMED = {"type": "function", "function": {"name": "f"}}
MUST = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}
ROOT = {"messages": [{"role": "root", "content": "x"}, USER]}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *((model, ROOT, "invalid role: root") for model in ("m", KIMI, K3, GLM, GLM53, V4, V41)),
    (KIMI, {"messages": [{**USER, "tools": []}]}, "'tools' on a message with role 'user' is not allowed"),
    (K3, declaring("assistant", [TOOL], content="x"), "'tools' on a message with role 'assistant' is not allowed"),
    (KIMI, declaring("system", "x"), "'tools' on a message with role 'system' must be a list of tool declarations"),
    (KIMI, declaring("developer", [{"x": 1}], content=""), "'tools' on a message with role 'developer' must be a list of tool declarations"),
    (KIMI, declaring("system", [TOOL], content="x"), "'tools' on a message with role 'system' requires empty content"),
    (KIMI, declaring("developer", [TOOL], content=[{"type": "text"}]), "'tools' on a message with role 'developer' requires empty content"),
    (KIMI, declaring("system", [tool("f", "web")]), "messages[0].tools[0]: tool type must be 'function'"),
    *((KIMI, declaring("system", [TOOL, tool(name)]), f"messages[0].tools[1]: {NAME_RULE}") for name in ("a-b", "", "9a", "é", "a\n", "a" * 257)),
    (KIMI, {**declaring("system", [TOOL]), "tools": [TOOL]}, "messages[0].tools[0]: duplicate tool name 'f'"),
    (KIMI, declaring("system", [TOOL, TOOL]), "messages[0].tools[1]: duplicate tool name 'f'"),
    (KIMI, {"messages": [{"role": "system", "tools": [TOOL]}] * 2}, "messages[1].tools[0]: duplicate tool name 'f'"),
    (KIMI, {**declaring("system", [TOOL]), "tool_choice": {"type": "function", "function": {"name": "g"}}}, "Invalid value for 'tool_choice': function 'g' not found in 'tools'."),
    (K3, {"temperature": 0.7, "top_p": 0.9}, "invalid temperature: only 0, 0.6 or 1 is allowed for this model"),
    (K3, {"top_p": 0.9, "n": 2}, "invalid top_p: only 0.95 is allowed for this model"),
    (K3, {"presence_penalty": 0.1}, "invalid presence_penalty: only 0 is allowed for this model"),
    (K3, {"frequency_penalty": -0.5}, "invalid frequency_penalty: only 0 is allowed for this model"),
    *((K3, {**declaring(role, "x", content="x"), **broken}, rule) for role in ("user", "system") for broken, rule in (({"n": 2}, "invalid n: only 1 is allowed for this model"), ({"thinking": {"effort": "x"}}, "invalid thinking.effort: only low, high or max is allowed for this model"))),
    *((model, {**declaring("system", [tool("f", "web")]), "tool_choice": NAMED}, "Invalid value for 'tool_choice': function 'f' not found in 'tools'.") for model in (KIMI, K3)),
    (K3, {"n": 2}, "invalid n: only 1 is allowed for this model"),
    (K3, ADAPTIVE, "invalid thinking.type: only enabled or disabled is allowed for this model"),
    *((K3, {"thinking": {"type": "disabled", "effort": one}}, "invalid thinking.effort: only low, high or max is allowed for this model") for one in ("medium", "none", "")),
    (MINIMAX, history(calls("c1"), answer("c1"), calls("c1"), answer("c1")), "duplicate tool_call id 'c1'"),
    (MINIMAX, history(calls("c1", "c1"), answer("c1")), "duplicate tool_call id 'c1'"),
    (MINIMAX, history(calls("c1"), answer("zz")), "no pending tool_call with id 'zz'"),
    (MINIMAX, history(answer("c1"), calls("c1")), "no pending tool_call with id 'c1'"),
    (MINIMAX, history(calls("c1"), answer("c1"), answer("c1")), "no pending tool_call with id 'c1'"),
    (MINIMAX, history(calls("c1", "c2"), answer("c2")), "tool_call 'c1' has no matching tool message"),
    *((MINIMAX, history(calls("c1", arguments=one), answer("c1")), "tool_call 'c1' arguments are not a JSON object") for one in ("{x}", "[]", "5", "{} x", '"x"')),
    (GLM, ADAPTIVE, "invalid thinking.type: only enabled or disabled is allowed for this model"),
    *((GLM, {"reasoning_effort": one}, "invalid reasoning_effort: only none, minimal, low, medium, high, xhigh or max is allowed for this model") for one in ("ultra", "", 3)),
    (GLM, {"thinking": {"effort": "ultra"}}, "invalid thinking.effort: only none, minimal, low, medium, high, xhigh or max is allowed for this model"),
    (GLM, {"thinking": {"effort": "low"}, "reasoning_effort": "x"}, "invalid reasoning_effort: only none, minimal, low, medium, high, xhigh or max is allowed for this model"),
    (GLM, {"tools": [TOOL, tool("g", "web_search")]}, "invalid tools[].type 'web_search': only 'function' is supported"),
    (GLM, {"messages": [{"role": "system", "content": [{"type": "file_url"}]}]}, "file_url content blocks are not supported"),
    (GLM53, {"thinking": {"type": "disabled"}}, "thinking cannot be disabled for this model"),
    (GLM53, ADAPTIVE, "invalid thinking.type: only enabled is allowed for this model"),
    *((GLM53, {"reasoning_effort": one}, "invalid reasoning_effort: only low, high or max is allowed for this model") for one in ("medium", "none", "xhigh")),
    (GLM53, {"thinking": {"effort": "medium"}}, "invalid thinking.effort: only low, high or max is allowed for this model"),
    (GLM53, {"tools": [tool("g", "retrieval")]}, "invalid tools[].type 'retrieval': only 'function' is supported"),
    *((model, ADAPTIVE, "thinking.type must be enabled or disabled for DeepSeek V4") for model in (V4, V41)),
    *((V4, {"reasoning_effort": one}, V4_EFFORT) for one in ("ultra", "50", 50, "")),
    (V4, {"thinking": {"effort": "high"}, "reasoning_effort": "ultra"}, V4_EFFORT),
    *((V41, {"reasoning_effort": one}, V41_EFFORT) for one in ("ultra", "0", "101", "1.5", "-1", "+5", "", 0, 50.0, 1000)),
    (V41, {"thinking": {"effort": "101"}}, V41_EFFORT),
    *((model, {"chat_template_kwargs": {name: one}}, "DeepSeek thinking template overrides must be booleans or null") for model, name, one in ((V4, "enable_thinking", 1), (V41, "thinking", []), (V4, "thinking", "true"))),
    *((model, {"chat_template_kwargs": {"thinking": True, "enable_thinking": False}}, "DeepSeek thinking and enable_thinking template overrides must agree") for model in (V4, V41)),
    *((V4, {"chat_template_kwargs": {"thinking": 1}, **more}, "DeepSeek thinking template overrides must be booleans or null") for more in (ADAPTIVE, {"reasoning_effort": "x"})),
    *((V4, {"chat_template_kwargs": {"thinking": True, "enable_thinking": False}, **more}, "DeepSeek thinking and enable_thinking template overrides must agree") for more in (ADAPTIVE, {"thinking": {"effort": "x"}})),
    *((model, {"tools": [TOOL], "tool_choice": one}, FORCED) for model, one in ((V4, "required"), (V4, NAMED), (V41, MUST))),
    (V4, {"tools": [TOOL], "tool_choice": "required", "reasoning_effort": "minimal"}, FORCED),
]  # fmt: skip


@pytest.mark.parametrize(("model", "fields", "rule"), REFUSED)
def test_rules(model: str, fields: dict[str, Any], rule: str) -> None:
    assert refused_chat(model, **fields) == f"__all__: {rule}"


def on(**more: Any) -> dict[str, Any]:
    return {"chat_template_kwargs": {"thinking": True, **more}}


OFF = {"chat_template_kwargs": {"thinking": False}}
K3_VALUES = {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
SAMPLING = {"temperature": 1.0, "top_p": 0.95}
USAGE = {"stream_options": {"include_usage": True}}

# model, fields sent, fields changed or added
REWRITTEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("m", {"stream": True}, {}),
    (KIMI, {}, {}),
    (KIMI, {"stream": True}, USAGE),
    (KIMI, {"stream": True, "stream_options": None}, USAGE),
    (KIMI, {"stream": True, "stream_options": {}}, USAGE),
    (KIMI, {"stream": True, "stream_options": {"include_usage": None}}, USAGE),
    (KIMI, {"stream": True, "stream_options": {"include_usage": False}}, {}),
    (KIMI, {"stream": True, "stream_options": {"x": 1}}, {"stream_options": {"x": 1, "include_usage": True}}),
    (KIMI, {"stream": False}, {}),
    (KIMI, ADAPTIVE, {}),
    (KIMI, declaring("system", [TOOL]), {}),
    (KIMI, declaring("system", [], content="x"), {}),
    (KIMI, declaring("developer", [TOOL], content=[]), {}),
    (KIMI, declaring("system", [tool("a" * 256), tool("_a9")], content=None), {}),
    (KIMI, {**declaring("system", [TOOL]), "tool_choice": "required"}, {}),
    (KIMI, {**declaring("system", [TOOL]), "tool_choice": NAMED}, {}),
    (KIMI, {"messages": [{**answer("c"), "tools": [TOOL]}]}, {"messages": [answer("c")]}),
    (K3, {}, K3_VALUES),
    (K3, {"temperature": 0.6, "n": None}, {**K3_VALUES, "temperature": 0.6}),
    (K3, {"temperature": 0, "top_p": 0.95, "presence_penalty": -0.0, "frequency_penalty": 0, "n": 1}, {}),
    (K3, {"stream": True}, {**K3_VALUES, **USAGE}),
    (K3, {"reasoning_effort": "medium", "thinking": {"effort": "max"}}, K3_VALUES),
    (MINIMAX, history(calls("c1", "c2"), USER, answer("c2"), answer("c1")), {}),
    *((MINIMAX, history(calls("c1", arguments=one), answer("c1")), {}) for one in ("", " \n", None, '{"a": 1}')),
    (GLM, {}, SAMPLING),
    (GLM, {"temperature": 0.5, "top_p": None}, {"top_p": 0.95}),
    *((model, {}, SAMPLING) for model in ("glm-5", "GLM-5-air", "glm5", "glm-5.2", "glm-5.10", "glm_5", "glm-4.6", "glm-4.6v", "x/glm-4.7-flash/y", GLM53)),
    *((model, {}, {}) for model in ("glm-4.5", "glm-4", "glm-4.75", "glm-46", "glm-4-6", "glm4.6", "glm_4.7", "zai", "z-ai/x", "glm-50b")),
    ("glm-4", {"thinking": {"clear_thinking": False}}, {"chat_template_kwargs": {"clear_thinking": False}}),
    ("glm-4", {"thinking": {"clear_thinking": True}, "chat_template_kwargs": {"a": 1}}, {"chat_template_kwargs": {"a": 1, "clear_thinking": True}}),
    ("glm-4", {"thinking": {"clear_thinking": True}, "chat_template_kwargs": None}, {"chat_template_kwargs": {"clear_thinking": True}}),
    ("glm-4", {"thinking": {"clear_thinking": True}, "chat_template_kwargs": {"clear_thinking": None}}, {}),
    ("glm-4", {"thinking": {"clear_thinking": None, "type": "enabled"}}, {}),
    ("glm-4", {"reasoning_effort": "minimal", "max_completion_tokens": 10**6}, {}),
    (GLM53, {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}, SAMPLING),
    (V4, {}, on()),
    (V4, {"stream": True}, on()),
    (V4, {"reasoning_effort": "none"}, OFF),
    (V4, {"reasoning_effort": "medium"}, {"reasoning_effort": "high", **on()}),
    (V4, {"reasoning_effort": "xhigh"}, {"reasoning_effort": "high", **on()}),
    (V4, {"reasoning_effort": "max"}, on()),
    (V4, {"reasoning_effort": "medium", "thinking": {"effort": "minimal"}}, {"reasoning_effort": "high", "thinking": {"effort": "low"}, **on()}),
    (V4, {"reasoning_effort": "none", "thinking": {"effort": "high"}}, on()),
    (V4, {"thinking": {"effort": "none"}}, OFF),
    (V4, {"thinking": {"type": "disabled"}}, OFF),
    (V4, {"thinking": {"type": "enabled"}, "chat_template_kwargs": {"thinking": False}}, {}),
    (V4, {"thinking": {"type": "disabled"}, "chat_template_kwargs": {"thinking": True}}, {}),
    (V4, {"chat_template_kwargs": {"enable_thinking": False}}, {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
    (V4, {"chat_template_kwargs": {"thinking": None, "x": 1}}, on(x=1)),
    (V4, {"chat_template_kwargs": None}, on()),
    (V4, {"tools": [TOOL], "tool_choice": "required", "reasoning_effort": "none"}, OFF),
    (V4, {"tools": [TOOL], "tool_choice": "auto"}, on()),
    (V4, {"tools": [TOOL], "tool_choice": {**MUST, "mode": "auto"}}, on()),
    (V41, {"reasoning_effort": "xhigh", "thinking": {"effort": "minimal"}}, {"thinking": {"effort": "low"}, **on()}),
    *((V41, {"reasoning_effort": one}, {"reasoning_effort": str(one), **on()}) for one in ("1", "100", "007", 50)),
]  # fmt: skip


@pytest.mark.parametrize(("model", "fields", "changed"), REWRITTEN)
def test_rewrites(model: str, fields: dict[str, Any], changed: dict[str, Any]) -> None:
    call = chat(model, **fields)
    assert forwarded(call) == {"model": model, "messages": [USER], **fields, **changed}
    assert call.dropped == ()


def test_roots_move_to_the_front_as_system_messages() -> None:
    root, system = {"role": "root", "content": "r", "name": "n"}, {"role": "system", "content": "s"}
    moved = {**root, "role": "system"}
    for sent, wanted in (
        ([root], [moved]),
        ([root, USER, root], [moved, moved, USER]),
        ([USER, root, system, {**root, "content": "2"}], [moved, {**moved, "content": "2"}, USER, system]),
        ([root, root], [moved, moved]),
    ):
        assert forwarded(chat(MINIMAX, messages=sent))["messages"] == wanted


def test_tools_of_moved_roots_are_dropped_too() -> None:
    root = {"role": "root", "content": "r"}
    call = chat(MINIMAX, messages=[{**USER, "tools": [1]}, {**root, "tools": "x"}])
    assert forwarded(call)["messages"] == [{**root, "role": "system"}, USER]
    assert call.dropped == ("messages[].tools",)


def test_tool_stream_is_dropped_for_glm_alone() -> None:
    assert "tool_stream" not in forwarded(chat("glm-4", tool_stream={"any": "thing"}))
    assert forwarded(chat("m", tool_stream=True))["tool_stream"] is True
