"""Reasoning by markers, as the original's route was seen to split it."""

from __future__ import annotations

import pytest

from smg.api.reasoning import PARSERS, split_reasoning


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
        ("", "minimax", "", ""),
    ],
)
def test_split(text: str, parser: str, reasoning: str, rest: str) -> None:
    assert split_reasoning(text, parser) == (reasoning, rest)


@pytest.mark.parametrize("parser", PARSERS)
def test_nothing_is_made_up(parser: str) -> None:
    text = "plain text"
    assert "".join(split_reasoning(text, parser)) == text


def test_a_parser_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        split_reasoning("a", "nope")
