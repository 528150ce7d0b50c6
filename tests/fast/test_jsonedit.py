"""Edits of a text: those of a list, of members by name, and of what a check has marked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg._fast.freeing import free_texts
from smg._fast.jsonedit import Edits, splice
from smg._fast.jsonspan import members, says_object, text_of
from smg.api.chat_request import (
    CHAT,
    DECLARED_TOOLS,
    REASONING_ALIAS,
    REFUSED_TOOLS,
    RESULT_TOOLS,
    ROOT_TOOLS,
)
from tests.fast.json_texts import Object, names, objects_of, read, texts, values

ROLES = {
    "system": DECLARED_TOOLS,
    "developer": DECLARED_TOOLS,
    "user": REFUSED_TOOLS,
    "assistant": REFUSED_TOOLS,
    "tool": RESULT_TOOLS,
    "function": RESULT_TOOLS,
    "root": ROOT_TOOLS,
}


@given(
    st.binary(min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), max_size=8),
)
def test_a_span_that_is_repeated_elsewhere(text: bytes, wanted: list[tuple[int, int, int]]) -> None:
    spans = [(place % len(text), *sorted((a % len(text), b % len(text)))) for place, a, b in wanted]
    edits = Edits(text)
    for place, start, end in spans:
        edits.repeat(place, start, end)
    assert len(edits) == len(spans)
    assert edits.apply() == splice(text, [(place, place, text[start:end]) for place, start, end in spans])
    assert edits.text == text


@pytest.mark.parametrize("span", [(-1, 2), (2, 1), (0, 4)])
def test_only_what_is_there_can_be_repeated(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="outside"):
        Edits(b"abc").repeat(0, *span)


@pytest.mark.parametrize("size", [0, 1, 24, 25, 100_000])
def test_what_is_put_in_may_be_short_or_long(size: int) -> None:
    edits = Edits(b"[1,2]")
    edits.put(1, 2, bytes([120]) * size)
    edits.put(3, 4, bytes([121]) * size)
    assert edits.apply() == b"[" + b"x" * size + b"," + b"y" * size + b"]"


def test_many_edits_in_any_order() -> None:
    text = b"0123456789" * 30_000
    edits = Edits(text)
    for at in range(len(text) - 10, -1, -10):
        edits.put(at, at + 1, b"a name that is longer than short ones")
    assert edits.apply() == text.replace(b"0", b"a name that is longer than short ones")


@given(texts(objects_of(values)), names)
def test_the_removal_of_one_member(case: tuple[Object, bytes], name: str) -> None:
    value, text = case
    found = members(text)
    assert found is not None
    removal = found.removal(name.encode())
    last = max((place for place, (key, _) in enumerate(value) if key == name), default=None)
    if last is None:
        assert removal is None
    else:
        assert removal is not None
        left = [member for place, member in enumerate(value) if place != last]
        assert read(splice(text, [(*removal, b"")])) == Object(left)


def test_eight_names_at_a_time() -> None:
    found = members(b"{}")
    assert found is not None
    with pytest.raises(ValueError, match="too many"):
        found.remove(Edits(b"{}"), *[b"a"] * 9)


@given(st.text(st.characters(exclude_categories=("Cs",))), st.booleans(), st.sampled_from([1, 70_000]))
def test_the_text_of_a_string(text: str, plain: bool, times: int) -> None:
    quoted = json.dumps(text * times if text else "", ensure_ascii=not plain).encode()
    assert text_of(b"[" + quoted + b"]", 1, 1 + len(quoted)) == json.loads(quoted).encode()


@pytest.mark.parametrize("span", [(-1, 2), (0, 1), (1, 5)])
def test_no_text_outside_of_the_text(span: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="outside"):
        text_of(b'"ab"', *span)


@given(texts(values), st.booleans(), st.sampled_from(["", "x", "{"]))
def test_a_string_that_says_an_object(case: tuple[Any, bytes], plain: bool, more: str) -> None:
    value, text = case
    quoted = json.dumps(text.decode() + more, ensure_ascii=not plain).encode()
    expected = isinstance(value, Object) and not more
    assert says_object(b"[" + quoted + b"]", 1, 1 + len(quoted)) == expected


# ---- marks


@st.composite
def chats(draw: st.DrawFn) -> tuple[list[Object], bytes]:
    """Messages with tools and reasoning among strange members, and the text of their chat."""
    messages = []
    for role in draw(st.lists(st.sampled_from(list(ROLES)), min_size=1, max_size=5)):
        own = [("role", role), ("content", "x"), ("tools", draw(values))]
        if role == "tool":
            own.append(("tool_call_id", "c"))
        if role == "assistant":
            own.append(("reasoning", draw(st.none() | st.just("r"))))
        strange = draw(st.lists(st.tuples(st.sampled_from(["x", "y", "Tools"]), values), max_size=3))
        messages.append(Object(draw(st.permutations(own + strange))))
    whole = Object([("model", "m"), ("messages", messages)])
    return messages, draw(texts(st.just(whole)))[1]


def changed(messages: list[Object], edits: Edits) -> None:
    assert dict(read(edits.apply()))["messages"] == messages


@given(chats(), st.sets(st.sampled_from(sorted(set(ROLES.values())))))
def test_marked_members_are_removed(case: tuple[list[Object], bytes], kinds: set[int]) -> None:
    messages, text = case
    edits = Edits(text)
    CHAT.read(text).remove_marked(edits, sum(kinds))

    def stays(message: Object, member: tuple[str, Any]) -> bool:
        return member[0] != "tools" or member[1] is None or ROLES[dict(message)["role"]] not in kinds

    changed([Object(one for one in message if stays(message, one)) for message in messages], edits)


@given(chats())
def test_marked_members_are_renamed(case: tuple[list[Object], bytes]) -> None:
    messages, text = case
    edits = Edits(text)
    CHAT.read(text).rename_marked(edits, REASONING_ALIAS, b'"a name of more than short length"')

    def renamed(message: Object, name: str, value: Any) -> tuple[str, Any]:
        is_alias = name == "reasoning" and value is not None
        return ("a name of more than short length" if is_alias else name, value)

    changed([Object(renamed(message, *one) for one in message) for message in messages], edits)


# ---- large texts


def test_a_text_that_somebody_holds_is_not_freed() -> None:
    held = b"x" * 1_000_000
    texts_given = [held, b"y" * 1_000_000]
    free_texts(texts_given)
    assert texts_given == []
    assert held == b"x" * 1_000_000
