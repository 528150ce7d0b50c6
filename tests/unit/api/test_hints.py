"""Routing hints: what counts, and that nothing malformed is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.api import hints


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (b"1,2,3", [1, 2, 3]),
        (b"0", [0]),
        (b"007,4294967295", [7, 4294967295]),
        (b",".join([b"1"] * 512), [1] * 512),
        (b"0" * 4095 + b"7", [7]),
    ],
)
def test_token_hints(value: bytes, tokens: list[int]) -> None:
    found = hints.tokens(value)
    assert found is not None
    assert list(found) == tokens


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b",", b"1,", b",1", b"1,,2", b"1, 2", b" 1", b"+1", b"-1", b"0x1", b"1.0", b"a"),
        *(b"4294967296", b",".join([b"1"] * 513), b"0" * 4097, b"\xff", b"1\x002"),
    ],
)
def test_malformed_token_hints_count_as_absent(value: bytes | None) -> None:
    assert hints.tokens(value) is None


@given(st.binary(max_size=60) | st.from_regex(rb"[0-9,]{0,60}", fullmatch=True))
def test_token_hints_of_any_bytes(value: bytes) -> None:
    try:
        wanted = [int(item) for item in value.decode("ascii").split(",")]
    except ValueError:
        wanted = []
    is_plain = bool(value) and not value.strip(b"0123456789,")
    found = hints.tokens(value)
    if wanted and is_plain and max(wanted) < 1 << 32:
        assert found is not None
        assert list(found) == wanted
    else:
        assert found is None


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (b"k", True),
        (b"x" * 128, True),
        (b"x" * 129, False),
        (b"", False),
        ("é".encode() * 64, True),
        (b"\xe9", False),
        (b"\xed\xa0\x80", False),
    ],
)
def test_keys(value: bytes, valid: bool) -> None:
    assert hints.is_key(value) is valid


def test_the_first_valid_header_counts() -> None:
    headers = {b"a": b"\xff", b"b": b"", b"c": b"k", b"d": b"l"}
    assert hints.first_key(headers.get, [b"z", b"a", b"b", b"c", b"d"]) == b"k"
    assert hints.first_key(headers.get, [b"a"]) is None


@pytest.mark.parametrize(
    ("key", "conversation"),
    [
        (b"conv_t2_r1", b"conv"),
        (b"conv_t2", b"conv"),
        (b"conv_r1", b"conv"),
        (b"conv_r1_t2", b"conv_r1"),
        (b"conv_t2_t3", b"conv_t2"),
        (b"conv-2", b"conv-2"),
        (b"conv:2", b"conv:2"),
        (b"conv_x2", b"conv_x2"),
        (b"conv_t", b"conv_t"),
        (b"conv_t2\n", b"conv_t2\n"),
        (b"_t2_r1", b"_t2_r1"),
    ],
)
def test_conversations(key: bytes, conversation: bytes) -> None:
    assert hints.conversation(key) == conversation
