"""The ID every answer carries: the caller's when it sent a usable one, else a new one marked by its route."""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Sequence

RESPONSE_HEADER = "x-request-id"
DEFAULT_HEADERS = ("x-request-id", "x-correlation-id", "x-trace-id", "request-id")
MAX_LENGTH = 128

PREFIXES = {
    "/v1/chat/completions": "chatcmpl-",
    "/v1/completions": "cmpl-",
    "/generate": "gnt-",
    "/v1/responses": "resp-",
    "/v1/messages": "msg_",
}
DEFAULT_PREFIX = "req-"

_RANDOM_CHARACTERS = 24
_DRAWN_IDS = 128
_ALPHABET = (string.ascii_letters + string.digits).encode()
# A random byte to a letter or digit. That a few are likelier costs 0.03 bits a character.
_CHARACTERS = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_VISIBLE = bytes(range(0x21, 0x7F))


class RequestIds:
    """`headers`: names that may carry an ID, the first present one counts; empty means the usual four."""

    __slots__ = ("_at", "_drawn", "names")

    def __init__(self, headers: Sequence[str] = ()) -> None:
        self.names = tuple(name.lower().encode() for name in headers or DEFAULT_HEADERS)
        self._drawn = b""
        self._at = 0

    def new(self, prefix: bytes) -> bytes:
        """`prefix` and 24 random letters and digits; draws randomness for many IDs at once."""
        at = self._at
        if at == len(self._drawn):
            self._drawn = os.urandom(_RANDOM_CHARACTERS * _DRAWN_IDS).translate(_CHARACTERS)
            at = 0
        self._at = end = at + _RANDOM_CHARACTERS
        return prefix + self._drawn[at:end]

    def choose(self, get: Callable[[bytes], bytes | None], path: str) -> str:
        """The ID of a request; `get` finds a header by its lower-case name."""
        for name in self.names:
            value = get(name)
            if value:
                if is_valid(value):
                    return value.decode("ascii")
                break
        return generate(PREFIXES.get(path, DEFAULT_PREFIX))


def generate(prefix: str) -> str:
    """`prefix` and 24 random letters and digits."""
    return prefix + os.urandom(_RANDOM_CHARACTERS).translate(_CHARACTERS).decode("ascii")


def is_valid(value: bytes) -> bool:
    """1 to 128 visible ASCII characters."""
    return 0 < len(value) <= MAX_LENGTH and not value.translate(None, _VISIBLE)
