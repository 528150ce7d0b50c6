"""Bodies of the halves of a pair: an edit of the bytes means the same edit of the value, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg._fast.jsonspan import members
from smg.api import legs
from tests.fast.json_texts import Object, names, objects_of, texts, values

OWN = ["bootstrap_host", "bootstrap_port", "bootstrap_room", "max_tokens", "stream", "min_tokens"]
OWN += ["stream_options", "max_completion_tokens", "kv_transfer_params", "n"]
BODIES = texts(
    st.lists(st.tuples(names | st.sampled_from(OWN), values), max_size=8).map(Object) | objects_of(values)
).map(lambda both: both[1])


def decoded(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def rooms() -> Callable[[], int]:
    numbers = iter(range(7, 1000))
    return lambda: next(numbers)


@given(BODIES)
def test_bootstrap_fields_are_the_only_change(body: bytes) -> None:
    edited = legs.bootstrapped("messages", body, "h", 9001, rooms())
    expected = decoded(body) | {"bootstrap_host": "h", "bootstrap_port": 9001, "bootstrap_room": 7}
    assert decoded(edited) == expected


@given(BODIES)
def test_a_prefill_only_body(body: bytes) -> None:
    edited = legs.prefill_only("completions", body, b'{"a":1}')
    expected = decoded(body) | {"max_tokens": 1, "stream": False, "kv_transfer_params": {"a": 1}}
    for name in ("min_tokens", "stream_options"):
        expected.pop(name, None)
    assert decoded(edited) == expected


@given(BODIES)
def test_handing_over(body: bytes) -> None:
    assert decoded(legs.with_params(body, b"{}")) == decoded(body) | {"kv_transfer_params": {}}
    assert legs.with_params(body, None) is body


@given(BODIES, st.lists(st.sampled_from(OWN), max_size=3))
def test_members_taken_out(body: bytes, gone: list[str]) -> None:
    left = decoded(legs.without(body, *(name.encode() for name in gone)))
    assert left == {name: value for name, value in decoded(body).items() if name not in gone}


def test_everything_else_stays_as_it_was_written() -> None:
    body = b'{ "top_p" : 0.950, "x":[1e2 ,3] ,"bootstrap_room":5, "y":"\\u0041" }'
    edited = legs.bootstrapped("chat", body, "::1", None, rooms())
    assert edited == (
        b'{ "top_p" : 0.950, "x":[1e2 ,3] ,"bootstrap_room":7, "y":"\\u0041",'
        b'"bootstrap_host":"::1","bootstrap_port":null }'
    )


@pytest.mark.parametrize(
    ("endpoint", "members_", "size"),
    [
        ("chat", '"n":3', 3),
        ("chat", '"n":1', None),
        ("chat", '"n":null', None),
        ("chat", '"prompt":["a","b"]', None),
        ("completions", '"prompt":["a","b"],"n":5', 2),
        ("completions", '"prompt":["a"]', 1),
        ("completions", '"prompt":"a","n":5', None),
        ("completions", '"prompt":[ 1,2]', None),
        ("completions", '"prompt":[[1,2],[3]]', 2),
        ("completions", '"prompt":[]', None),
        ("generate", '"text":["a","b"]', 2),
        ("generate", '"input_ids":[1,2,3]', None),
        ("generate", '"input_ids":[[1],[2],[3]]', 3),
        ("generate", '"text":"a","sampling_params":{"n":4}', None),
        ("messages", '"n":3', None),
    ],
)
def test_how_many_rooms(endpoint: str, members_: str, size: int | None) -> None:
    body = b"{" + members_.encode() + b"}"
    found = members(body)
    assert found is not None
    assert legs.batch_size(endpoint, found) == size
    edited = decoded(legs.bootstrapped(endpoint, body, "h", 9, rooms()))
    numbers = [7, 8, 9, 10, 11][: size or 1]
    got = [edited[name] for name in ("bootstrap_host", "bootstrap_port", "bootstrap_room")]
    single = ["h", 9, 7]
    assert got == (single if size is None else [["h"] * size, [9] * size, numbers])


@pytest.mark.parametrize(
    ("endpoint", "body", "limit"),
    [
        ("chat", b'{"max_completion_tokens":9}', {"max_completion_tokens": 1}),
        ("chat", b'{"max_completion_tokens":null}', {"max_completion_tokens": None, "max_tokens": 1}),
        ("chat", b'{"max_tokens":9}', {"max_tokens": 1}),
        ("chat", b'{"min_tokens":9}', {"max_tokens": 1}),
        ("responses", b'{"max_output_tokens":9}', {"max_output_tokens": 1}),
        ("messages", b"{}", {"max_tokens": 1}),
    ],
)
def test_one_token(endpoint: str, body: bytes, limit: dict[str, Any]) -> None:
    assert decoded(legs.prefill_only(endpoint, body, None)) == limit | {"stream": False}


@pytest.mark.parametrize(
    ("sent", "ours", "expected"),
    [
        (b'{"max_tokens":7}', b'{"max_completion_tokens":7}', b'{"max_tokens":7}'),
        (b'{"max_tokens":7,"max_completion_tokens":5}', b'{"max_completion_tokens":5}', None),
        (b'{"max_tokens":null}', b'{"max_completion_tokens":5}', None),
        (b'{"max_tokens":7}', b'{"max_tokens":7}', None),
        (b"{}", b'{"max_completion_tokens":5}', None),
    ],
)
def test_the_limit_of_a_chat_under_the_clients_name(sent: bytes, ours: bytes, expected: bytes | None) -> None:
    assert legs.as_sent("chat", ours, sent) == (expected or ours)
    assert legs.as_sent("completions", ours, sent) is ours
    assert legs.as_sent("chat", ours, None) is ours


@pytest.mark.parametrize(
    ("endpoint", "body", "is_forked"),
    [
        ("chat", b'{"n":2}', True),
        ("completions", b'{"n":2}', True),
        ("chat", b'{"n":1}', False),
        ("chat", b"{}", False),
        ("generate", b'{"n":2}', False),
    ],
)
def test_several_choices(endpoint: str, body: bytes, is_forked: bool) -> None:
    assert legs.is_forked(endpoint, body) is is_forked


@pytest.mark.parametrize(
    ("answer", "handed"),
    [
        (b'{"kv_transfer_params": {"p": 1.50} }', b'{"p": 1.50}'),
        (b'{"kv_transfer_params":null}', None),
        (b'{"kv_transfer_params":[1]}', None),
        (b"{}", None),
        (b"[]", None),
        (b"oops", None),
        (b"", None),
    ],
)
def test_what_is_handed_over(answer: bytes, handed: bytes | None) -> None:
    assert legs.handed_over(answer) == handed


def info(inner: bytes) -> bytes:
    return b'{"t":1,"meta_info": {"x":2,"input_token_logprobs":' + inner + b',"y":3}}'


@pytest.mark.parametrize(
    ("prefill", "decode", "both"),
    [
        (info(b"[[0.10,1]]"), info(b"[[0.20,2]]"), info(b"[[0.10,1],[0.20,2]]")),
        (info(b"[]"), info(b"[[0.2,2]]"), info(b"[[0.2,2]]")),
        (info(b"[ [1] ]"), info(b"[]"), info(b"[[1]]")),
        (info(b"null"), info(b"[1]"), None),
        (info(b"[1]"), info(b"null"), None),
        (b"{}", info(b"[1]"), None),
        (info(b"[1]"), b'{"meta_info":3}', None),
        (b"oops", info(b"[1]"), None),
        (info(b"[1]"), b"oops", None),
        (b"[" + info(b"[1]") + b"]", b"[" + info(b"[2]") + b"]", b"[" + info(b"[1,2]") + b"]"),
        (b"[]", b"[" + info(b"[2]") + b"]", None),
        (info(b"[1]"), b"[" + info(b"[2]") + b"]", None),
    ],
)
def test_log_probabilities_of_the_prompt(prefill: bytes, decode: bytes, both: bytes | None) -> None:
    assert legs.merge_input_logprobs(prefill, decode) == (both or decode)


def test_who_wants_them() -> None:
    assert legs.wants_input_logprobs("generate", b'{"return_logprob":true}')
    assert not legs.wants_input_logprobs("generate", b'{"return_logprob":false}')
    assert not legs.wants_input_logprobs("chat", b'{"return_logprob":true}')
