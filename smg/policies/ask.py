"""What a policy may look at of a request, read only when it asks for it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import msgspec

from smg.api import hints
from smg.api.call import Call

_UNREAD: tuple[()] = ()


class Ticket(Protocol):
    """What a policy wants to be told of a request it has placed; `end` comes last and exactly once."""

    def first_event(self, now: float) -> None: ...

    def end(self, now: float) -> None: ...


class Ask:
    """One attempt to place a call. `get` finds a request header by its lower-case name.

    What the policy leaves here for whoever counts its choices: `branch`, the policy and its reason; of a
    prompt it has looked up the size, the longest match, and what the chosen worker holds, in bytes.
    """

    __slots__ = (
        "_get",
        "_key",
        "_key_names",
        "_tokens",
        "branch",
        "call",
        "held_bytes",
        "matched_bytes",
        "prompt_bytes",
        "ticket",
        "why",
    )

    def __init__(self, call: Call, get: hints.Get, key_names: Sequence[bytes] = ()) -> None:
        self.call = call
        self.ticket: Ticket | None = None
        self.why = call.why
        self.branch: tuple[str, str] | None = None
        self.prompt_bytes = self.matched_bytes = self.held_bytes = 0
        self._get = get
        self._key_names = key_names or (hints.ROUTING_KEY,)
        self._tokens: array[int] | tuple[()] | None = _UNREAD
        self._key: bytes | tuple[()] | None = _UNREAD

    @property
    def tokens(self) -> array[int] | None:
        """The hinted prompt tokens as int32 items, or None."""
        if isinstance(self._tokens, tuple):
            self._tokens = hints.tokens(self._get(hints.ROUTING_TOKENS))
        return self._tokens

    @property
    def key(self) -> bytes | None:
        """The routing key: of the configured headers the first with a valid value, else the usual one."""
        if isinstance(self._key, tuple):
            names = self._key_names
            names = names if hints.ROUTING_KEY in names else (*names, hints.ROUTING_KEY)
            self._key = hints.first_key(self._get, names)
        return self._key

    @property
    def session(self) -> bytes | None:
        """What a sticky session is known by: the key in a configured header, which the usual one is only as
        long as no others are configured; else the body's `rid`."""
        return hints.first_key(self._get, self._key_names) or self.rid

    @property
    def rid(self) -> bytes | None:
        """The body's `rid`, when it is a text that can be a key."""
        raw = self.call.rid
        if raw is None or not raw.startswith(b'"'):
            return None
        text: str = msgspec.json.decode(raw)
        rid = text.encode("utf-8", "replace")
        return rid if hints.is_key(rid) else None

    @property
    def target(self) -> bytes | None:
        """`X-SMG-Target-Worker` as sent; None when absent or empty."""
        return self._get(hints.TARGET_WORKER) or None

    @property
    def origin(self) -> bytes | None:
        """What stands for the caller where no key is given."""
        return self._get(b"x-forwarded-for") or self._get(b"cookie") or None
