"""What a policy reads of a request, and that it is read once."""

from __future__ import annotations

from typing import Any

import pytest

from smg.policies.ask import Ask
from tests.unit.policies.fleet import ask, call

KEY, OWN = b"x-smg-routing-key", b"x-session"


def test_hints_are_read_once() -> None:
    asked: list[bytes] = []

    def get(name: bytes) -> bytes | None:
        asked.append(name)
        return {b"x-smg-routing-tokens": b"1,2", KEY: b"k"}.get(name)

    one = Ask(call(None), get)
    for _ in range(3):
        assert one.tokens is not None
        assert list(one.tokens) == [1, 2]
        assert one.key == b"k"
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({OWN: b"own", KEY: b"usual"}, b"own"),
        ({OWN: b"", KEY: b"usual"}, b"usual"),
        ({OWN: b"\xff", KEY: b"usual"}, b"usual"),
        ({OWN: b"x" * 129}, None),
        ({}, None),
    ],
)
def test_the_first_valid_key(headers: dict[bytes, bytes], key: bytes | None) -> None:
    assert ask(headers=headers, key_names=[OWN]).key == key


@pytest.mark.parametrize(
    ("fields", "rid"),
    [
        ({"rid": "one"}, b"one"),
        ({"rid": 'a"\u00e9'}, 'a"\u00e9'.encode()),
        ({"rid": ""}, None),
        ({"rid": "x" * 129}, None),
        ({"rid": 7}, None),
        ({"rid": ["one"]}, None),
        ({}, None),
    ],
)
def test_rid(fields: dict[str, Any], rid: bytes | None) -> None:
    assert ask("text", **fields).rid == rid


def test_an_unread_body_has_no_rid() -> None:
    assert ask().rid is None


def test_target_and_origin() -> None:
    assert ask(headers={b"x-smg-target-worker": b""}).target is None
    assert ask(headers={b"x-smg-target-worker": b"1"}).target == b"1"
    assert ask(headers={b"cookie": b"c", b"x-forwarded-for": b"f"}).origin == b"f"
    assert ask(headers={b"cookie": b"c", b"x-forwarded-for": b""}).origin == b"c"
    assert ask().origin is None


def test_other_names_take_the_usual_ones_place_for_sessions_only() -> None:
    usual, own = {b"x-smg-routing-key": b"u"}, {b"x-session": b"s"}
    assert ask(headers=usual).session == b"u"
    named = ask("x", usual, (b"x-session",), rid="r")
    assert (named.key, named.session) == (b"u", b"r")
    assert ask(headers=usual, key_names=(b"x-session",)).session is None
    both = ask(headers=usual | own, key_names=(b"x-session",))
    assert (both.key, both.session) == (b"s", b"s")
    assert ask(headers=usual, key_names=(b"x-session", b"x-smg-routing-key")).session == b"u"
