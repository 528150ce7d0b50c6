"""What answers say they cost, cut in all ways, against `json.loads`."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg._fast.promptspan import prompt_spans
from smg._fast.usage import UsageMeter, guess_tokens

Counts = tuple[int, int, int, int, int, int]


def read(*pieces: bytes) -> Counts:
    meter = UsageMeter()
    for piece in pieces:
        meter.feed(piece)
    return (
        meter.prompt, meter.completion, meter.total, meter.cache_read, meter.cache_written, meter.events
    )  # fmt: skip


def sse(*events: Any) -> bytes:
    return (
        b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    )


CHUNK = {"id": "c", "choices": [{"index": 0, "delta": {"content": 'say "prompt_tokens": 7 and \\"'}}]}
ANSWERS: dict[str, tuple[bytes, Counts]] = {
    "chat": (
        json.dumps(
            {
                "choices": [{"message": {"content": '"completion_tokens": 99'}}],
                "usage": {
                    "prompt_tokens": 12,
                    "completion_tokens": 345,
                    "total_tokens": 357,
                    "prompt_tokens_details": {"cached_tokens": 8},
                    "completion_tokens_details": {"reasoning_tokens": 5},
                },
            }
        ).encode(),
        (12, 345, 357, -1, -1, 0),
    ),
    "spread out": (
        b'{"usage" : {\r\n "prompt_tokens" :\t 3 ,\n "completion_tokens"\n:\n4\n}\n}',
        (3, 4, -1, -1, -1, 0),
    ),
    "stream with usage": (
        sse(CHUNK, CHUNK, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}),
        (9, 2, -1, -1, -1, 3),
    ),
    "stream with usage in every event": (
        sse(*({**CHUNK, "usage": {"prompt_tokens": 9, "completion_tokens": n}} for n in range(12))),
        (9, 11, -1, -1, -1, 12),
    ),
    "stream without usage": (sse(CHUNK, {**CHUNK, "usage": None}), (-1, -1, -1, -1, -1, 2)),
    "messages": (
        b'event: message_start\ndata: {"message":{"usage":{"input_tokens":5,"cache_read_input_tokens":100,'
        b'"cache_creation_input_tokens":20,"output_tokens":1}}}\n\nevent: ping\ndata: {"type":"ping"}\n\n'
        b'event: message_delta\ndata: {"usage":{"output_tokens":15}}\n\n',
        (5, 15, -1, 100, 20, 3),
    ),
    "generate": (
        b'{"text":"x","meta_info":{"prompt_tokens":5,"completion_tokens":16,"cached_tokens":1}}',
        (5, 16, -1, -1, -1, 0),
    ),
    "several results": (
        b' [{"meta_info":{"prompt_tokens":5,"completion_tokens":16}},'
        b'{"meta_info":{"prompt_tokens":7,"completion_tokens":4}}]',
        (12, 20, -1, -1, -1, 0),
    ),
    "embeddings": (
        b'{"data":[{"embedding":[0.1,-2]}],"usage":{"prompt_tokens":8,"total_tokens":8}}',
        (8, -1, 8, -1, -1, 0),
    ),
    "limits are no usage": (
        b'{"max_output_tokens":4096,"max_completion_tokens":1,"usage":{"input_tokens":1,"output_tokens":2}}',
        (1, 2, -1, -1, -1, 0),
    ),
    "no numbers": (b'{"prompt_tokens":"5","completion_tokens":null,"total_tokens":-3}', (-1,) * 5 + (0,)),
    "no members": (b'["prompt_tokens","completion_tokens",5,"x prompt_tokens":1]', (-1,) * 5 + (0,)),
    "comments and other lines": (
        b': ping\n\ndata:{"a":1}\r\n\r\nretry: 3\ndata:   {"a":1}\n\ndata: 5\nxdata: {}\ndatadata: {}\n',
        (-1, -1, -1, -1, -1, 2),
    ),
    "nothing": (b"", (-1,) * 5 + (0,)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_whole_and_in_any_two_pieces(name: str) -> None:
    body, counts = ANSWERS[name]
    assert read(body) == counts
    for at in range(len(body) + 1):
        assert read(body[:at], body[at:]) == counts, at


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_in_small_pieces(name: str, size: int) -> None:
    body, counts = ANSWERS[name]
    assert read(*(body[at : at + size] for at in range(0, len(body), size))) == counts


def test_a_flood_of_blanks_is_not_kept() -> None:
    meter = UsageMeter()
    meter.feed(b'{"prompt_tokens":')
    for _ in range(1000):
        meter.feed(b" " * 50)
    meter.feed(b'5,"completion_tokens":6}')
    assert (meter.prompt, meter.completion) == (-1, 6)


def test_long_numbers_are_cut() -> None:
    assert read(b'{"prompt_tokens":' + b"9" * 100 + b"}")[0] == 10**15 - 1


def test_what_it_adds_up_to() -> None:
    meter = UsageMeter()
    assert meter.tokens == -1
    meter.feed(b'{"total_tokens":9}')
    assert meter.tokens == 9
    meter.feed(b'{"input_tokens":2,"cache_read_input_tokens":10}')
    assert meter.tokens == 12
    meter.feed(b'{"output_tokens":3}')
    assert meter.tokens == 15
    meter.clear()
    assert (meter.tokens, meter.events) == (-1, 0)


names = st.sampled_from(
    ["prompt_tokens", "completion_tokens", "total_tokens", "a", '"', "_tokens", "x_tokens"]
)
texts = names | st.text(max_size=5)
values = st.recursive(
    texts | st.integers(0, 10**9) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(texts, values, max_size=4), st.lists(st.integers(0, 400), max_size=6), st.booleans())
def test_any_document_in_any_pieces(document: dict[str, Any], cuts: list[int], blanks: bool) -> None:
    body = json.dumps(document, indent=1 if blanks else None).encode()
    found = {"prompt_tokens": -1, "completion_tokens": -1, "total_tokens": -1}

    # The last member in the order of the text counts, wherever it stands.
    def last(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                last(one)
        elif isinstance(value, dict):
            for name, one in value.items():
                if name in found and type(one) is int:
                    found[name] = one
                last(one)

    last(document)
    ends = sorted({min(cut, len(body)) for cut in cuts} | {0, len(body)})
    pieces = [body[a:b] for a, b in pairwise(ends)]
    assert read(*pieces)[:3] == tuple(found.values())


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("", 0), ("abcd", 1), ("abcde", 2), ([1, 22, 333], 3), ([[1, 2], [3]], 3), ([1, "a"], 2),
        (["ab", "cd"], 3),
    ],
)  # fmt: skip
def test_guesses(value: Any, tokens: int) -> None:
    body = json.dumps({"prompt": value}).encode()
    spans = prompt_spans(body, b"prompt")
    assert (guess_tokens(body, spans) if spans is not None else 0) == tokens
    assert guess_tokens(body, None) == -(-len(body) // 4)


def test_images_are_no_text() -> None:
    text = b"word " * 20_000
    assert guess_tokens(text, None) == 25_000
    assert guess_tokens(text + b"A" * 100_000, None) == 25_000
    assert guess_tokens(b"A" * 100_000 + b'"' + text, None) == 25_001
    assert guess_tokens(text + b"A" * 4_000, None) == 26_000
