"""What a policy may look at of a request, read only when it asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from smg.api import hints
from smg.api.call import Call

Get = Callable[[bytes], bytes | None]

_UNREAD: tuple[()] = ()


class Ticket(Protocol):
    """What a policy wants to be told of a request it has placed; `end` comes last and exactly once."""

    def first_event(self, now: float) -> None: ...

    def end(self, now: float) -> None: ...


class Ask:
    """One attempt to place a call. `get` finds a request header by its lower-case name; `why` collects
    what an operator who asks for an explanation is shown."""

    __slots__ = ("_get", "_key", "_key_names", "_tokens", "call", "ticket", "why")

    def __init__(self, call: Call, get: Get, key_names: Sequence[bytes] = (hints.ROUTING_KEY,)) -> None:
        self.call = call
        self.ticket: Ticket | None = None
        self.why = ""
        self._get = get
        self._key_names = key_names
        self._tokens: memoryview | bytes | tuple[()] | None = _UNREAD
        self._key: bytes | tuple[()] | None = _UNREAD

    @property
    def tokens(self) -> bytes | memoryview | None:
        """The hinted prompt tokens as int32 items, or None."""
        if isinstance(self._tokens, tuple):
            self._tokens = hints.tokens(self._get(hints.ROUTING_TOKENS))
        return self._tokens

    @property
    def key(self) -> bytes | None:
        """The routing key: of the configured headers the first with a valid value, else the usual one."""
        if isinstance(self._key, tuple):
            self._key = hints.first_key(self._get, self._key_names)
        return self._key

    @property
    def target(self) -> bytes | None:
        """`X-SMG-Target-Worker` as sent; None when absent or empty."""
        return self._get(hints.TARGET_WORKER) or None

    @property
    def origin(self) -> bytes | None:
        """What stands for the caller where no key is given."""
        return self._get(b"x-forwarded-for") or self._get(b"cookie") or None
