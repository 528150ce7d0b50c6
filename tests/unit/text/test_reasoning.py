"""Reasoning in whole texts, as the original's route was seen to split it."""

from __future__ import annotations

import pytest

from smg.text.reasoning import PARSERS

THINK = "<|open|>think<|sep|>hm<|close|>think<|sep|>"
SAID = "<|open|>response<|sep|>Ok.<|close|>response<|sep|>"
TOOLS = '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
CALL = '<|content_invoke_tool_json|>{"name":"f","args":{}}<|end_message|>'


@pytest.mark.parametrize(
    ("text", "parser", "reasoning", "rest"),
    [
        ("<think>a</think>b", "qwen3", "a", "b"),
        ("<think>a</think>b", "deepseek_r1", "a", "b"),
        ("a</think>b", "qwen3", "", "a</think>b"),
        ("a</think>b", "deepseek_r1", "a", "b"),
        ("abc", "qwen3", "", "abc"),
        ("abc", "deepseek_r1", "abc", ""),
        ("<think>abc", "qwen3", "abc", ""),
        ("x<think>a</think>b", "qwen3", "xa", "b"),
        ("<think>\na\n</think>\n\nb", "glm45", "\na\n", "\n\nb"),
        ("◁think▷a◁/think▷b", "kimi", "a", "b"),
        ("<think>a</think>b", "kimi", "", "<think>a</think>b"),
        ("<|START_THINKING|>a<|END_THINKING|>b", "cohere_cmd", "a", "b"),
        ("<think>a</think>b", "passthrough", "", "<think>a</think>b"),
        ("<think>a</think>b", "deepseek_v41", "a", "b"),
        ("", "minimax", "", ""),
    ],
)
def test_markers(text: str, parser: str, reasoning: str, rest: str) -> None:
    assert PARSERS[parser](text) == (reasoning, rest)


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        (THINK, "hm", ""),
        (THINK + SAID, "hm", "Ok."),
        (SAID, "", "Ok."),
        ("<|open|>think<|sep|>hm", "hm", ""),
        ("<|open|>response<|sep|>Ok.", "", "Ok."),
        ("hm<|close|>think<|sep|>" + SAID, "hm", "Ok."),
        ("hm<|close|>think<|sep|>rest", "hm", "rest"),
        (THINK + SAID + TOOLS, "hm", "Ok." + TOOLS),
        (THINK + TOOLS, "hm", TOOLS),
        (THINK + SAID + "<|end_of_msg|>", "hm", "Ok.<|end_of_msg|>"),
        ('<|open|>message role="assistant"<|sep|>' + THINK + SAID + "<|close|>message<|sep|>", "hm", "Ok."),
        ("\n" + THINK + "\n" + SAID, "hm", "\nOk."),
        ("said before " + THINK + SAID, "hm", "said before Ok."),
        (THINK + THINK + SAID, "hmhm", "Ok."),
        ("<|open|>think<|sep|>a<|sep|>b<|close|>think<|sep|>", "a<|sep|>b", ""),
        ("<|open|>foo<|sep|>x<|close|>foo<|sep|>", "", "<|open|>foo<|sep|>x<|close|>foo<|sep|>"),
        ("<think>a</think>b", "", "<think>a</think>b"),
    ],
)
def test_channels(text: str, reasoning: str, rest: str) -> None:
    assert PARSERS["kimi_k3"](text) == (reasoning, rest)


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        ("<|content_thinking|>hm<|end_message|>", "hm", ""),
        ("<|content_thinking|>hm<|end_message|><|content_text|>Ok.<|end_message|>", "hm", "Ok."),
        ("<|content_thinking|>hm", "hm", ""),
        ("<|content_thinking|>hm<|end_message|>Ok.", "hm", "Ok."),
        ("<|message_model|>to<|content_thinking|>a<|end_message|><|content_text|>b", "a", "b"),
        ("<|content_thinking|>a<|content_text|>b<|end_message|>", "a", "b"),
        ("x<|content_thinking|>a<|end_message|>y<|content_thinking|>b<|end_message|>z", "ab", "xyz"),
        ("<|content_thinking|>hm<|end_message|>" + CALL + "x", "hm", CALL + "x"),
        ("a<|end_message|>b<|content_model_end_sampling|>", "", "ab"),
        ("<|content_foo|>x", "", "<|content_foo|>x"),
        ("<|message_user|>hi<|end_message|>", "", "hi"),
    ],
)
def test_frames(text: str, reasoning: str, rest: str) -> None:
    assert PARSERS["inkling"](text) == (reasoning, rest)


@pytest.mark.parametrize("parser", PARSERS)
def test_nothing_is_made_up(parser: str) -> None:
    text = "plain text"
    assert "".join(PARSERS[parser](text)) == text
    assert PARSERS[parser]("") == ("", "")
