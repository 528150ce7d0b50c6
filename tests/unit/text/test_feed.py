"""Text in pieces: marks are found however it is cut, and nothing is held back that need not be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.text.feed import Feed, Marks, Pattern, Steps, at_once

LETTERS = st.text("ab<|", max_size=12)


def fed(steps: Steps[object], feed: Feed, pieces: Iterator[str]) -> object:
    """The outcome of steps over pieces, which come when they are wanted."""
    try:
        while True:
            next(steps)
            piece = next(pieces, None)
            if piece is None:
                feed.ended = True
            else:
                feed.add(piece)
    except StopIteration as end:
        return end.value


@given(
    st.lists(LETTERS, max_size=8), st.lists(st.text("ab<|", min_size=1, max_size=4), min_size=1, max_size=3)
)
def test_until_finds_the_first_mark_however_the_text_is_cut(pieces: list[str], texts: list[str]) -> None:
    # No mark begins another: which of the two it is could not be told before more came.
    texts = [text for text in texts if not any(text.startswith(other) for other in texts if other != text)]
    feed, before = Feed(), list[str]()
    mark = fed(feed.until(Marks(*texts), before.append), feed, iter(pieces))
    text = "".join(pieces)
    places = [(text.find(wanted), wanted) for wanted in texts if wanted in text]
    assert (len("".join(before)), mark) == (min(places) if places else (len(text), ""))
    assert text.startswith("".join(before))


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("ab", 2),
        ("ab<", 2),
        ("ab<<", 3),
        ("ab<tool", 2),
        ("ab<toll", 7),
        ("<tool_call", 0),
        ("[", 0),
        ("", 0),
    ],
)
def test_only_what_may_become_a_mark_is_held(text: str, safe: int) -> None:
    assert Marks("<tool_call>", "[x]").safe(text, 0) == safe


def test_a_pattern_holds_what_it_may_match_and_its_texts() -> None:
    pattern = Pattern(r"\{(?=\s{0,9}\")", r"\{\s{0,9}\Z", 11, "<a>")
    assert [pattern.safe(text, 0) for text in ("x{  ", "x{y", "x<a", "x<a{")] == [1, 3, 1, 3]
    assert pattern.search('x{ y{ "')
    assert pattern.search("<a>")


@given(st.lists(LETTERS, max_size=6), st.integers(0, 6))
def test_within_does_not_look_beyond_its_limit(pieces: list[str], limit: int) -> None:
    feed = Feed()
    found = fed(feed.within(Marks("<|"), limit), feed, iter(pieces))
    before, mark, _ = "".join(pieces).partition("<|")
    assert found == ((before, mark) if mark and len(before) <= limit else None)


def test_kept_text_is_what_was_read() -> None:
    feed = Feed()
    pieces = iter(["one <m", ">two ", "three<", "n> four"])
    fed(feed.until(Marks("<m>"), len), feed, pieces)
    feed.keep(3)
    fed(feed.until(Marks("<n>"), len), feed, pieces)
    assert feed.kept() == "<m>two three<n>"
    feed.keep()
    assert feed.kept() == ""


def test_starts_and_blank() -> None:
    feed = Feed()
    assert fed(feed.starts("abc"), feed, iter(["a", "b", "c d"])) is True
    assert at_once(feed.blank()) == "d"
    assert fed(feed.starts("dx"), feed, iter(["y"])) is False
    feed = Feed()
    assert fed(feed.blank(), feed, iter([" ", "\n"])) == ""
    with pytest.raises(RuntimeError):
        at_once(Feed().blank())
