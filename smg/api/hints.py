"""Routing hints in request headers: malformed ones count as absent, none is ever an error."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence

from smg._fast.prefix import routing_tokens

Get = Callable[[bytes], bytes | None]
"""Finds a header by its lower-case name."""

ROUTING_KEY = b"x-smg-routing-key"
ROUTING_TOKENS = b"x-smg-routing-tokens"
TARGET_WORKER = b"x-smg-target-worker"
MAX_KEY_BYTES = 128

_TURN = re.compile(rb"_r[0-9]+\Z")
_CONVERSATION = re.compile(rb"_t[0-9]+\Z")


def tokens(value: bytes | None) -> array[int] | None:
    """The hinted prompt tokens as int32 items; None when there are none or the hint is malformed."""
    return routing_tokens(value) if value else None


def first_key(get: Callable[[bytes], bytes | None], names: Sequence[bytes]) -> bytes | None:
    """The first header of `names` that holds a key: 1 to 128 bytes of UTF-8."""
    for name in names:
        value = get(name)
        if value and is_key(value):
            return value
    return None


def is_key(value: bytes) -> bool:
    if not 0 < len(value) <= MAX_KEY_BYTES:
        return False
    if value.isascii():
        return True
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def conversation(key: bytes) -> bytes:
    """A key without the marks of a retry (`_r1`) and a turn (`_t2`): what the conversation is known by."""
    return _CONVERSATION.sub(b"", _TURN.sub(b"", key)) or key
