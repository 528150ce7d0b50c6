"""Hashes of beginnings against xxhash itself, and the token hint against a regular expression."""

from __future__ import annotations

import json
import re
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from smg._fast.prefix import routing_tokens, text_hash, token_hash, token_hashes

WELL_FORMED = re.compile(rb"[0-9]+(,[0-9]+){0,511}")


def read_hint(value: bytes) -> list[int] | None:
    if len(value) > 4096 or not WELL_FORMED.fullmatch(value):
        return None
    ids = [int(item) for item in value.split(b",")]
    return ids if max(ids) < 2**32 else None


def listed(value: bytes) -> list[int] | None:
    ids = routing_tokens(value)
    return None if ids is None else ids.tolist()


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=400))
def test_a_hint_is_read(ids: list[int]) -> None:
    value = ",".join(map(str, ids)).encode()
    if len(value) <= 4096:
        assert listed(value) == ids


PARTS = st.sampled_from([b"0", b"7", b"42", b"4294967295", b"4294967296", b",", b" ", b"-", b"a"])


@given(st.lists(PARTS, max_size=9))
@example([b"1", b"\0"])
def test_a_hint_is_read_as_the_pattern_says(parts: list[bytes]) -> None:
    value = b"".join(parts)
    assert listed(value) == read_hint(value)


ODD = [b"", b",", b"1,", b",1", b"1,,2", b"1, 2", b" 1", b"1 ", b"+1", b"-1", b"0x1", b"1.0", b"1e3", b"1;2"]
TOO_MUCH = [b"4294967296", b"9" * 30, b"\xd9\xa1", b"1\n", b",".join([b"1"] * 513), b"0" * 4097]


@pytest.mark.parametrize("value", [*ODD, *TOO_MUCH])
def test_malformed_hints_are_none(value: bytes) -> None:
    assert listed(value) is None
    assert read_hint(value) is None


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (b"0", [0]),
        (b"007,4294967295", [7, 2**32 - 1]),
        (b",".join([b"1234567"] * 512), [1234567] * 512),
        (b"0" * 4096, [0]),
    ],
    ids=["zero", "leading zeros", "512 items", "4096 bytes"],
)
def test_hints_at_their_limits(value: bytes, ids: list[int]) -> None:
    assert listed(value) == ids


@given(st.lists(st.integers(0, 2**32 - 1), max_size=600), st.integers(0, 700))
def test_tokens_are_hashed_as_32_bit_numbers(ids: list[int], count: int) -> None:
    as_bytes = b"".join(one.to_bytes(4, "little") for one in ids)
    tokens = array("I", ids)
    assert token_hash(tokens, count) == xxh3_64_intdigest(as_bytes[: 4 * count])
    boundaries = [16, 100, 256, 512]
    expected = [(one, xxh3_64_intdigest(as_bytes[: 4 * one])) for one in boundaries if one <= len(ids)]
    assert token_hashes(tokens, boundaries) == expected


@given(st.lists(st.text(max_size=30), max_size=6), st.integers(0, 120), st.booleans())
def test_text_is_hashed_by_characters(texts: list[str], count: int, in_ascii: bool) -> None:
    body, spans, left, expected = b"", array("q"), count, b""
    for text in texts:
        inside = json.dumps(text, ensure_ascii=in_ascii).encode("utf-8", "surrogatepass")[1:-1]
        body += b'"'
        spans.extend([len(body), len(body) + len(inside)])
        body += inside + b'"'
        head = text[:left]
        left -= len(head)
        expected += json.dumps(head, ensure_ascii=in_ascii).encode("utf-8", "surrogatepass")[1:-1]
    assert text_hash(body, spans, count) == xxh3_64_intdigest(expected)


@pytest.mark.parametrize("end", range(1, 13))
def test_escapes_cut_short_stay_inside_the_span(end: int) -> None:
    body = b"\\ud83d\\ude00"
    assert text_hash(body, array("q", [0, end]), 50) == xxh3_64_intdigest(body[:end])


def test_bad_arguments() -> None:
    for tokens in (array("q", [1]), b"1234"):
        with pytest.raises(ValueError, match="32-bit"):
            token_hash(tokens, 1)
        with pytest.raises(ValueError, match="32-bit"):
            token_hashes(tokens, [1])
    with pytest.raises(ValueError, match="ascend"):
        token_hashes(array("I", range(9)), [5, 2])
    for spans in ([0, 9], [-1, 2], [2, 1], [0]):
        with pytest.raises(ValueError, match="span"):
            text_hash(b"hello", array("q", spans), 5)
    with pytest.raises(ValueError, match="64-bit"):
        text_hash(b"hello", array("i", [0, 5]), 5)
    with pytest.raises(TypeError):
        routing_tokens("1,2")  # type: ignore[arg-type]
