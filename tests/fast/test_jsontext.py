"""What long strings say, told from how they are written, against Python's strings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg._fast.jsontext import characters, has_edges, is_blank

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(' \t\n\x1c\x85\u2003\u3000,"\\'))


@given(texts, st.booleans(), st.integers(0, 3))
def test_what_a_string_says(text: str, ascii_only: bool, before: int) -> None:
    written = json.dumps(text, ensure_ascii=ascii_only).encode()
    body, span = b"[" * before + written + b"]", (before, before + len(written))
    assert characters(body, *span) == len(text)
    assert is_blank(body, *span) == (not text or text.isspace())


@given(st.text("ab,x", max_size=8), st.booleans())
def test_edges(text: str, escaped: bool) -> None:
    written = json.dumps(text).encode()
    if escaped:
        written = written.replace(b",", b"\\u002c").replace(b"b", b"\\u0062")
    head, stop, rest = text.partition(",")
    wanted = bool(stop and rest) and len(head) > 3 and head.startswith("a") and head.endswith("bx")
    assert has_edges(written, 0, len(written), b"a", b"bx", ord(",")) == wanted


@pytest.mark.parametrize("text", ["x" * 70_000, "é" * 70_000, " \u2003" * 40_000, "\n" * 70_000])
def test_long_strings(text: str) -> None:
    for ascii_only in (False, True):
        written = json.dumps(text, ensure_ascii=ascii_only).encode()
        assert characters(written, 0, len(written)) == len(text)
        assert is_blank(written, 0, len(written)) == text.isspace()


@pytest.mark.parametrize("span", [(-1, 2), (0, 1), (0, 4), (2, 1)])
def test_spans_outside(span: tuple[int, int]) -> None:
    for ask in (characters, is_blank):
        with pytest.raises(ValueError, match="outside"):
            ask(b'"a"', *span)
    with pytest.raises(ValueError, match="outside"):
        has_edges(b'"a"', *span, b"a", b"b", 44)
