"""Python literals: the JSON they become, against Python's own reading of them."""

from __future__ import annotations

import ast
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.text.feed import Feed, at_once
from smg.text.pytext import MAX_DEPTH, Tokens, bracketed, call, value

LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def as_json(text: str) -> str:
    tokens = Tokens(text)
    found = value(tokens)
    tokens.end()
    return found


@given(LITERALS)
def test_what_python_prints_is_read(literal: object) -> None:
    text = repr(literal)
    if "inf" not in text.replace("'", ""):
        assert json.loads(as_json(text)) == literal


@given(
    st.text("\\'\"nux0141NUa\n", max_size=10),
    st.sampled_from(["'", '"', "'''", '"""']),
    st.sampled_from("rub "),
)
def test_strings_as_python_reads_them(inside: str, quote: str, prefix: str) -> None:
    text = (prefix.strip() + quote + inside + quote).replace("\\N", "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return
    if prefix == "b":
        expected = expected.decode("latin-1")
        if "\\u" in text or "\\U" in text:
            return
    assert json.loads(as_json(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("True", "true"),
        ("null", "null"),
        ("Paris", '"Paris"'),
        ("(1, 'a',)", '[1,"a"]'),
        ("{1: 2, 'a': None}", '{"1":2,"a":null}'),
        ("0x10", "16"),
        ("1_000", "1000"),
        (".5", "0.5"),
        ("1.", "1.0"),
        ("+2", "2"),
        ("-1.50e3", "-1.50e3"),
        ("'a' \"b\"", '"ab"'),
        ("r'\\d'", '"\\\\d"'),
        ("'\\d'", '"\\\\d"'),
        ("'\\ud83d\\ude00'", '"😀"'),
        ("'\\ud800'", '"\ufffd"'),
        ("[]", "[]"),
    ],
)
def test_values(text: str, expected: str) -> None:
    assert as_json(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1+2",
        "f()",
        "{1,2}",
        "[1 2]",
        "[1",
        "{'a'}",
        "{[1]: 2}",
        "1j",
        "...",
        "not True",
        "f'x'",
        "05x",
        "'a",
        "1;2",
        "lambda: 1",
        "a.b",
        "[,]",
        "--1",
    ],
)
def test_what_is_no_literal(text: str) -> None:
    with pytest.raises(ValueError, match=r"Python literal|value|comma|key|number"):
        as_json(text)


def test_calls() -> None:
    assert call(Tokens("f(a=1, b='x',)")) == ("f", '{"a":1,"b":"x"}')
    assert call(Tokens("f()")) == ("f", "{}")
    for text in ("f(1)", "f(a=1,a=2)", "f(**{})", "f", "f(a)", "1(a=1)", "f(a=1"):
        with pytest.raises(ValueError, match=r"Python literal|call|argument|comma"):
            call(Tokens(text))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("(a]", None),
        ("a)]b", None),
        ("a]b", "b"),
        ("']']b", "b"),
        ("'''it's]''']b", "b"),
        ("'\\']']b", "b"),
        ("'']b", "b"),
        ("{'a': (1, [2])}]b", "b"),
        ("'open]", None),
        ("(" * MAX_DEPTH + ")" * MAX_DEPTH + "]", None),
    ],
)
def test_the_closing_bracket(text: str, rest: str | None) -> None:
    feed = Feed.of(text)
    assert at_once(bracketed(feed, "[", len)) is (rest is not None)
    if rest is not None:
        assert feed.text[feed.at :] == rest
