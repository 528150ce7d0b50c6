"""Where sticky keys have their worker, shared by all gateways through Redis."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any

from smg.state.link import Link, LinkError, Script

_FIND = Script("return redis.call('GET', KEYS[1])")

# Arguments: worker, time to live in ms, and whether a worker that stands there already is kept.
# Answer: the worker that stands there in the end.
_CLAIM = Script("""
if ARGV[3] == '1' then
  local kept = redis.call('GET', KEYS[1])
  if kept and kept ~= ARGV[1] then
    return kept
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
""")

_PREFIX = "smg:place:"
_MAX_WORKER_BYTES = 2048


class SharedPlaces:
    """`idle_s`: how long a key is remembered that nobody renews. Keys are stored as digests, and each `scope`
    has its own."""

    def __init__(self, link: Link, idle_s: float, scope: str = "") -> None:
        self._link = link
        self._scope = scope.encode()
        self._idle_ms = max(1, int(idle_s * 1000))

    def find(self, key: bytes) -> Awaitable[str | None] | None:
        """The worker of a key, by its URL; None at once when nobody can be asked."""
        asked = self._link.ask(_FIND, [self._name(key)], [], late=_ignore)
        return None if asked is None else _found(asked)

    def claim(self, key: bytes, worker: str, others: Callable[[str], None] | None = None) -> None:
        """Write down a key's worker. With `others`, an earlier choice of another gateway is kept and told."""
        keep = others is not None

        def told(answer: Any) -> None:
            stands = _text(answer)
            if others is not None and stands is not None and stands != worker:
                others(stands)

        self._link.tell(_CLAIM, [self._name(key)], [worker, self._idle_ms, int(keep)], told if keep else None)

    def _name(self, key: bytes) -> str:
        return _PREFIX + blake2b(key, digest_size=16, person=self._scope).hexdigest()


async def _found(asked: Awaitable[Any]) -> str | None:
    try:
        return _text(await asked)
    except LinkError:
        return None


def _text(answer: Any) -> str | None:
    if not isinstance(answer, bytes) or len(answer) > _MAX_WORKER_BYTES:
        return None
    return answer.decode("utf-8", "replace")


def _ignore(answer: Any) -> None:
    """Nobody wants to know any more."""
