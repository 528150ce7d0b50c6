"""Where prompts stand in bodies, against `json.loads`."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smg._fast.promptspan import first_spans, prompt_spans, spans_size
from tests.fast.json_texts import Object, scalars, texts

# Names that mean something elsewhere too.
names = st.sampled_from(["content", "messages", "text", "reasoning_content", "role", "type", "x", "a\nb"])
words = st.text(st.characters(exclude_categories=("Cs",)), max_size=10) | st.sampled_from(
    ['"', "\\", '\\"', "]}", '"content":"', "\\\\", "\u00e9\U0001f600"]
)


def members(values: st.SearchStrategy[Any], but: tuple[str, ...] = ()) -> st.SearchStrategy[list[Any]]:
    return st.lists(
        st.tuples(names.filter(lambda name: name not in but), values), max_size=3, unique_by=lambda m: m[0]
    )


nested = st.recursive(
    scalars | words, lambda inner: st.lists(inner, max_size=3) | members(inner).map(Object), max_leaves=8
)


@st.composite
def objects(draw: st.DrawFn, own: dict[str, st.SearchStrategy[Any]]) -> Object:
    """An object with some of its own members, and strange ones between."""
    mine = [(name, draw(values)) for name, values in own.items() if draw(st.booleans())]
    return Object(draw(st.permutations([*mine, *draw(members(nested, tuple(own)))])))


parts = objects({"type": st.just("text"), "text": words | nested})
messages = objects(
    {
        "role": st.just("user"),
        "content": words | st.lists(parts, max_size=3) | st.none() | objects({"text": words}),
        "reasoning_content": words | st.none(),
        "tool_calls": st.lists(objects({"text": words, "content": words}), max_size=2),
    }
)


@st.composite
def chats(draw: st.DrawFn) -> tuple[Any, bytes]:
    body = objects({"model": words}).map(lambda rest: [member for member in rest if member[0] != "messages"])
    chat = st.builds(lambda rest, at, given: Object([*rest[:at], ("messages", given), *rest[at:]]),
                     body, st.integers(0, 4), st.lists(messages, max_size=4))  # fmt: skip
    return draw(texts(chat))


def spans(body: bytes, member: bytes = b"messages") -> list[tuple[int, int]]:
    found = prompt_spans(body, member)
    pairs = memoryview(found or b"").cast("q")
    assert found is None or len(pairs) > 0
    return list(zip(pairs[::2], pairs[1::2], strict=True))


def texts_of(chat: Any) -> list[str]:
    """Contents, reasoning and the texts of content parts, in their order; empty ones are left out."""
    found: list[Any] = []
    for message in dict(chat)["messages"]:
        for name, value in message:
            if name == "content" and type(value) is list:
                found += [one for part in value for key, one in part if key == "text"]
            elif name in ("content", "reasoning_content"):
                found.append(value)
    return [text for text in found if isinstance(text, str) and text]


def has_escaped_name(body: bytes) -> bool:
    """Names that are written with escapes are not looked for."""
    return b"\\u00" in body


@given(chats())
@settings(max_examples=300)
def test_spans_are_the_texts_of_the_messages(chat: tuple[Any, bytes]) -> None:
    value, body = chat
    found = [json.loads(b'"' + body[start:end] + b'"') for start, end in spans(body)]
    wanted = texts_of(value)
    if has_escaped_name(body):
        rest = iter(wanted)
        assert all(text in rest for text in found)
    else:
        assert found == wanted


@given(texts(), st.sampled_from([b"prompt", b"messages", b"a"]))
def test_spans_of_any_json_are_inside(text: tuple[Any, bytes], member: bytes) -> None:
    check(text[1], member)


json_bytes = st.lists(
    st.sampled_from([*b'{}[]":,\\ \n', 0, 255]).map(lambda byte: bytes([byte]))
    | st.sampled_from([b'"messages"', b'"content"', b'"text"', b'"prompt"', b":", b"null", b'{"messages":['])
    | st.binary(max_size=4),
    max_size=40,
).map(b"".join)


@given(st.binary(max_size=80) | json_bytes, st.sampled_from([b"prompt", b"messages", b""]))
@example(b"", b"messages")
@example(b'{"messages"', b"messages")
@example(b'{"messages":[{"content":"', b"messages")
@example(b'{"messages":[{"content":"\\', b"messages")
@example(b'{"prompt":"', b"prompt")
@example(b'{"prompt":', b"prompt")
@settings(max_examples=500)
def test_spans_of_any_bytes_are_inside(body: bytes, member: bytes) -> None:
    check(body, member)


def check(body: bytes, member: bytes) -> None:
    last = 0
    for start, end in spans(body, member):
        assert last <= start < end <= len(body)
        last = end


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        (b'{"prompt":"one\\n two"}', b"one\\n two"),
        (b' { "x" : {"prompt":"no"} , "prompt" : ["one", "two"] }', b'["one", "two"]'),
        (b'{"x":"\\"prompt\\":\\"no\\"","prompt":[1,[2]],"y":1}', b"[1,[2]]"),
        (b'{"prompt":12 }', b"12"),
    ],
)
def test_other_prompts_are_taken_whole(body: bytes, prompt: bytes) -> None:
    ((start, end),) = spans(body, b"prompt")
    assert body[start:end] == prompt


@pytest.mark.parametrize("body", [b'{"prompt":""}', b'{"prompt":null}', b'{"promp":"x"}', b'["prompt"]'])
def test_no_prompt(body: bytes) -> None:
    assert prompt_spans(body, b"prompt") is None


def test_spans_are_bounded() -> None:
    body = json.dumps({"messages": [{"content": "x"}] * 5000}).encode()
    assert len(spans(body)) == 4096


@pytest.mark.parametrize("arguments", [(None, b"prompt"), (b"{}", None)])
def test_only_bytes_are_read(arguments: Any) -> None:
    with pytest.raises(TypeError):
        prompt_spans(*arguments)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 60))
def test_the_first_bytes_of_spans(sizes: list[int], most: int) -> None:
    pairs, covered, at = array("q"), [], 0
    for size in sizes:
        pairs.extend((at, at + size))
        covered += range(at, at + size)
        at += size + 2
    cut = first_spans(pairs.tobytes(), most)
    ends = array("q", cut)
    left = [place for i in range(0, len(ends), 2) for place in range(ends[i], ends[i + 1])]
    assert left == covered[:most]
    assert spans_size(cut) == min(most, len(covered))


@pytest.mark.parametrize("member", ["prompt", "messages"])
def test_large_bodies_are_read_alike(member: str) -> None:
    text = "x" * 100_000
    value = text if member == "prompt" else [{"role": "user", "content": text}]
    body = json.dumps({"other": [text], member: value}).encode()
    spans = array("q", prompt_spans(body, member.encode()) or b"")
    assert [body[start:end] for start, end in zip(spans[::2], spans[1::2], strict=True)] == [text.encode()]
