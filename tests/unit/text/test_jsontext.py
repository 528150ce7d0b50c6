"""JSON in pieces: strict, compact, spelled as it came."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.text.feed import Feed
from smg.text.jsontext import MAX_DEPTH, MAX_SCALAR_CHARACTERS, JsonReader, compact, decoded, encoded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def read(pieces: list[str]) -> str | None:
    feed, said = Feed(), list[str]()
    steps = JsonReader(feed).value(said.append)
    try:
        for piece in pieces:
            feed.add(piece)
            next(steps)
        feed.ended = True
        next(steps)
    except StopIteration as end:
        return "".join(said) if end.value else None
    raise AssertionError("it waits for more")


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_any_json_comes_through_without_its_blanks(value: object, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    expected = json.dumps(value, ensure_ascii=escaped, separators=(",", ":"))
    assert compact(text) == expected
    assert read(list(text)) == expected


@given(st.text('{}[]",: 0-1.e\\ua\n', max_size=14), st.integers(1, 5))
def test_it_takes_what_python_takes_however_it_is_cut(text: str, size: int) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = json
    found = compact(text)
    assert (json if found is None else json.loads(found)) == expected
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert read(pieces) == read([text])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[1,]",
        '{"a":1,}',
        '{"a"}',
        "{1:2}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "NaN",
        "Infinity",
        "tru",
        "nul",
        "'a'",
        '"a',
        '"\\x"',
        '"\\u12"',
        '"\t"',
        "1 2",
        "[}",
        "{]",
        "]",
        "truefalse",
        "1true",
        "-",
        '"a"b',
    ],
)
def test_what_is_no_json(text: str) -> None:
    assert compact(text) is None


def test_limits() -> None:
    assert compact("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert compact("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)) is None
    assert compact("1" * MAX_SCALAR_CHARACTERS)
    for size in (1, 100, 2000):
        number = "1" * (MAX_SCALAR_CHARACTERS + 1)
        assert read([number[at : at + size] for at in range(0, len(number), size)]) is None


def test_numbers_keep_their_spelling() -> None:
    for number in ("1.50", "1e3", "-0.0", "1E+2", "123456789012345678901234567890"):
        assert compact(f"[ {number} ]") == f"[{number}]"


def test_strings() -> None:
    assert encoded('a"\né') == '"a\\"\\né"'
    assert decoded('"a\\u00e9"') == "aé"
    assert decoded('"\\ud83d\\ude00"') == "😀"
    assert decoded('"\\ud800"') is None
