"""The simulated engine's text."""

from __future__ import annotations

import json

import pytest

from smg.sim import text
from smg.sim.text import Limits, compose


def test_is_a_pure_function_of_prompt_seed_and_choice() -> None:
    limits = Limits(30, 100)
    one = compose(b"hello", 1, 0, limits)
    assert compose(b"hello", 1, 0, limits) == one
    others = [
        compose(b"hello!", 1, 0, limits),
        compose(b"hello", 2, 0, limits),
        compose(b"hello", 1, 1, limits),
    ]
    assert len({one.text, *(other.text for other in others)}) == 4


def test_says_what_it_is() -> None:
    assert compose(b"x", 0, 0, Limits(20, 20)).text.startswith(b"This is a simulated engine: no model")


def test_no_word_needs_escaping() -> None:
    for word in (*text._PREAMBLE, *text._WORDS):
        assert json.dumps(word.decode(), ensure_ascii=False) == f'"{word.decode()}"'
    assert any(len(word) > len(word.decode()) for word in text._WORDS)  # some are not ASCII


@pytest.mark.parametrize(
    ("natural", "most", "tokens", "reason"),
    [
        (20, 100, 20, "stop"),
        (20, 20, 20, "stop"),
        (20, 19, 19, "length"),
        (20, 0, 0, "length"),
        (20, 3, 3, "length"),
    ],
)
def test_length(natural: int, most: int, tokens: int, reason: str) -> None:
    choice = compose(b"x", 0, 0, Limits(natural, most))
    assert (choice.tokens, len(choice.pieces), choice.finish_reason) == (tokens, tokens, reason)


@pytest.mark.parametrize(
    ("stops", "kept", "tokens", "matched"),
    [
        (["engine"], "This is a simulated ", 5, "engine"),
        ([" engine"], "This is a simulated", 5, " engine"),
        (["ulated en"], "This is a sim", 5, "ulated en"),
        (["This"], "", 1, "This"),
        (["model", " a "], "This is", 4, " a "),
        (["not there"], None, 20, None),
    ],
)
def test_stop(stops: list[str], kept: str | None, tokens: int, matched: str | None) -> None:
    whole = compose(b"x", 0, 0, Limits(20, 20))
    choice = compose(b"x", 0, 0, Limits(20, 20, stops))
    assert choice.text.decode() == (whole.text.decode() if kept is None else kept)
    assert (choice.tokens, choice.matched_stop, choice.finish_reason) == (tokens, matched, "stop")
    assert len(choice.pieces) <= choice.tokens
