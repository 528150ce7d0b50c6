"""Tenants' budgets in Redis, shared by all gateways: the same buckets as in one process, kept by a script.

Each gateway keeps account by itself as well, so that it can go on when Redis is away.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from smg.state.link import Link, LinkError, Script, Word

# What a budget has by now, of at most `most_t` tokens and `most_r` requests, which fills up in a minute; and
# how it is written down, until a minute after it is full again.
_BUDGET = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local function left(key, most_t, most_r)
  local kept = redis.call('HMGET', key, 't', 'r', 'at')
  if not kept[1] then
    return most_t, most_r
  end
  local minutes = math.max(0, now - tonumber(kept[3])) / 60
  local t, r = tonumber(kept[1]) + minutes * most_t, tonumber(kept[2]) + minutes * most_r
  return math.min(most_t, t), math.min(most_r, r)
end
local function keep(key, most_t, t, r)
  redis.call('HSET', key, 't', string.format('%.6f', t), 'r', string.format('%.6f', r),
    'at', string.format('%.6f', now))
  redis.call('PEXPIRE', key, math.ceil((2 + math.max(0, -t / most_t)) * 60000))
end
"""

# Keys: budgets. Arguments: tokens to pay, then most tokens and most requests a minute of each budget.
# Takes all or nothing. Answer: seconds to wait as a text, "0" when it was paid, "-1" when it never can be.
_TAKE = Script(
    _BUDGET
    + """
local cost = tonumber(ARGV[1])
local wait = 0
local rest = {}
for i, key in ipairs(KEYS) do
  local most_t, most_r = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  if cost > most_t then
    return '-1'
  end
  local t, r = left(key, most_t, most_r)
  if cost > t + 0.000001 or r < 1 - 0.000001 then
    wait = math.max(wait, math.max((cost - t) / most_t, (1 - r) / most_r) * 60)
  end
  rest[i] = {t - cost, r - 1}
end
if wait > 0 then
  return string.format('%.6f', wait)
end
for i, key in ipairs(KEYS) do
  keep(key, tonumber(ARGV[2 * i]), rest[i][1], rest[i][2])
end
return '0'
"""
)

# Keys: budgets. Arguments: tokens and requests to give back (or to take, when negative), then as above.
_GIVE = Script(
    _BUDGET
    + """
for i, key in ipairs(KEYS) do
  local most_t, most_r = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local t, r = left(key, most_t, most_r)
  keep(key, most_t, math.min(most_t, t + tonumber(ARGV[1])), math.min(most_r, r + tonumber(ARGV[2])))
end
return '0'
"""
)

_PREFIX = "smg:budget:"


class Limited(Protocol):
    """A limit a minute, known by its key."""

    @property
    def key(self) -> str: ...

    @property
    def tokens(self) -> int: ...

    @property
    def requests(self) -> int: ...


L = TypeVar("L", bound=Limited)
C = TypeVar("C", bound=Limited, contravariant=True)


class Local(Protocol[C]):
    """Budgets in this process."""

    def take(self, limits: Sequence[C], tokens: int) -> float: ...

    def give_back(self, limits: Sequence[C], tokens: int, requests: int = 0) -> None: ...


class SharedBudgets(Generic[L]):
    """`local` decides while Redis is away; it is told of everything, so that it knows where it stands."""

    def __init__(self, link: Link, local: Local[L]) -> None:
        self._link = link
        self._local = local

    def take(self, limits: Sequence[L], tokens: int) -> float | Awaitable[float]:
        def unwanted(answer: Any) -> None:
            if _seconds(answer) == 0:
                self._give(limits, tokens, 1)

        asked = self._link.ask(_TAKE, _keys(limits), [tokens, *_most(limits)], late=unwanted)
        if asked is None:
            return self._local.take(limits, tokens)
        return self._taken(asked, limits, tokens)

    def give_back(self, limits: Sequence[L], tokens: int, requests: int = 0) -> None:
        self._local.give_back(limits, tokens, requests)
        self._give(limits, tokens, requests)

    async def _taken(self, asked: asyncio.Future[Any], limits: Sequence[L], tokens: int) -> float:
        try:
            wait_s = _seconds(await asked)
        except LinkError:
            return self._local.take(limits, tokens)
        except BaseException:
            # The client has left: what was or is still taken for it is given back.
            if not asked.cancel() and asked.exception() is None and _seconds(asked.result()) == 0:
                self._give(limits, tokens, 1)
            raise
        if wait_s == 0:
            self._local.give_back(limits, -tokens, -1)
        return wait_s

    def _give(self, limits: Sequence[L], tokens: int, requests: int) -> None:
        self._link.tell(_GIVE, _keys(limits), [tokens, requests, *_most(limits)])


def _keys(limits: Sequence[Limited]) -> list[str]:
    return [_PREFIX + limit.key for limit in limits]


def _most(limits: Sequence[Limited]) -> list[Word]:
    return [number for limit in limits for number in (limit.tokens, limit.requests)]


def _seconds(answer: Any) -> float:
    seconds = float(answer)
    return math.inf if seconds < 0 else seconds
