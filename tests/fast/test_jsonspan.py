"""Spans and edits: an edit of the text means the same edit of the value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg._fast.jsonedit import Edits, splice
from smg._fast.jsonspan import (
    MAX_DEPTH,
    JsonError,
    elements,
    members,
    members_at,
    unescape,
)
from tests.fast.json_texts import Object, names, objects_of, read, texts, values

NOT_JSON = [
    b"",
    b" ",
    b"{",
    b"[1,]",
    b'{"a":1,}',
    b"{'a':1}",
    b'{"a" 1}',
    b"{a:1}",
    b"nul",
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"-1e400",
    b"1" * 400,
    b"01",
    b"1.",
    b".5",
    b"+1",
    b"1e",
    b'"\x01"',
    b'"a\nb"',
    b'"\\x"',
    b'"\\u12g4"',
    b'"\\ud83d"',
    b'"\\ud83dx"',
    b'"\\ud83d\\u0041"',
    b'"\\udc00"',
    b'"\xed\xa0\xbd"',
    b'"\xff"',
    b'"\xc0\x80"',
    b'"\xf5\x80\x80\x80"',
    b'"\xe2\x82"',
    b"\xef\xbb\xbf{}",
    b"{} x",
    b'"abc',
    b"[" * 10_000,
    b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
]
JSON = [
    b"0",
    b"-0",
    b"0e400",
    b"1e-400",
    b"1e308",
    b"0.1E+5",
    b'"\\ud83d\\ude00"',
    b'"\\u0000\\/\\b"',
    b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    b"9" * 300,
]


@pytest.mark.parametrize("text", NOT_JSON, ids=lambda text: repr(text[:16]))
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(JsonError) as caught:
        members(text)
    assert 0 <= caught.value.position <= len(text)


@pytest.mark.parametrize("text", JSON, ids=lambda text: repr(text[:16]))
def test_json_that_is_no_object_has_no_members(text: bytes) -> None:
    assert members(text) is None


@given(st.binary(max_size=40) | st.text('{}[]",:\\u0de1.eE+-n true\x00é😀', max_size=40).map(str.encode))
def test_agrees_with_the_json_module_on_what_is_json(text: bytes) -> None:
    def refuse(_: str) -> None:
        raise ValueError

    def finite(written: str) -> float:
        value = float(written)
        if value in (float("inf"), float("-inf")):
            raise ValueError
        return value

    try:
        value = json.loads(text.decode(), parse_constant=refuse, parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode()
        valid = not text.startswith(b"\xef\xbb\xbf")
    except ValueError:
        valid = False
    try:
        members(text)
        found = True
    except JsonError:
        found = False
    assert found == valid


@given(texts(objects_of(values)))
def test_members_are_those_of_the_object(case: tuple[Object, bytes]) -> None:
    value, text = case
    found = members(text)
    assert found is not None
    assert [name.decode() for name in found.names()] == [name for name, _ in value]
    assert found.start == text.index(b"{")
    assert text[found.end :].strip() == b""
    last = dict(value)
    for name in last:
        raw = found.raw(name.encode())
        assert raw is not None and read(raw) == last[name]
        assert found.span(name.encode()) is not None
    assert b"not there" not in found and found.raw(b"not there") is None


@given(texts(objects_of(values)), st.lists(names, max_size=3))
def test_removals(case: tuple[Object, bytes], unwanted: list[str]) -> None:
    value, text = case
    found = members(text)
    assert found is not None
    edits = Edits(text)
    found.remove(edits, *[name.encode() for name in unwanted])
    assert read(edits.apply()) == Object((name, one) for name, one in value if name not in unwanted)


@given(texts(objects_of(values)), texts(objects_of(values)))
def test_addition(case: tuple[Object, bytes], other: tuple[Object, bytes]) -> None:
    value, text = case
    added = b'"new":' + other[1]
    found = members(text)
    assert found is not None
    assert read(splice(text, [found.addition(added)])) == Object((*value, ("new", other[0])))


@given(texts(objects_of(values)), names)
def test_replace(case: tuple[Object, bytes], name: str) -> None:
    value, text = case
    found = members(text)
    assert found is not None
    if name not in dict(value):
        with pytest.raises(KeyError):
            found.replace(name.encode(), b"1")
        return
    replaced = read(found.replace(name.encode(), b"[7]"))
    assert replaced == Object((key, [7] if key == name else one) for key, one in value)


@given(texts(st.lists(values, max_size=5)))
def test_elements(case: tuple[list[Any], bytes]) -> None:
    value, text = case
    spans = list(elements(text, text.index(b"[")))
    assert [read(text[start:end]) for start, end in spans] == value


def test_members_of_an_inner_object() -> None:
    text = b'[{"a": {"b": 1, "c": 2}}]'
    assert members_at(text, 7).raw(b"c") == b"2"
    assert members_at(text, 7).start == 7


@given(
    st.binary(max_size=30), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.binary(max_size=4)))
)
def test_splice_equals_edits_from_the_back(text: bytes, wanted: list[tuple[int, int, bytes]]) -> None:
    edits = [(start, start + size, new) for start, size, new in wanted]
    ordered = sorted(enumerate(edits), key=lambda one: (one[1][0], one[0]))
    at, overlap = 0, False
    for _, (start, end, _) in ordered:
        overlap = overlap or start < at or end > len(text)
        at = max(at, end)
    if overlap:
        with pytest.raises(ValueError):
            splice(text, edits)
        return
    expected = text
    for _, (start, end, new) in reversed(ordered):
        expected = expected[:start] + new + expected[end:]
    assert splice(text, edits) == expected


def test_large_texts_are_spliced_alike() -> None:
    text = b"0123456789" * 20_000
    edits = [(at, at + 1, b"<%d>" % at) for at in range(0, len(text), 10)]
    spliced = splice(text, edits)
    assert spliced.startswith(b"<0>123456789<10>123456789")
    assert len(spliced) == len(text) - len(edits) + sum(len(new) for _, _, new in edits)


def test_unescape() -> None:
    assert unescape(b'"a"') == b"a"
    assert unescape(rb'"\u00e9\ud83d\ude00\n"') == "é😀\n".encode()
