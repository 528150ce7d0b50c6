"""What tenants have left of their minutes, in this process; a store shared by several gateways can stand in
for it."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from smg._fast.budget import Budget
from smg.admission.bucket import Bucket
from smg.admission.limits import Limit

MAX_STRANGERS = 65_536
"""Budgets of tenants that the file does not list; beyond, those unused for longest are forgotten."""
SEARCHED = 8
SHOWN = 20
LOOKED_AT = 2_000
MINUTE_S = 60.0


class Budgets(Protocol):
    """`take` pays one request and so many tokens from all limits or from none, at once or later; it gives
    the seconds until that can be paid: 0 when it was, infinity when it never can be. `give_back` returns
    what was taken too much, or takes what was too little when negative, whatever is left."""

    def take(self, limits: Sequence[Limit], tokens: int) -> float | Awaitable[float]: ...

    def give_back(self, limits: Sequence[Limit], tokens: int, requests: int = 0) -> None: ...


class LocalBudgets:
    """Budgets of listed tenants are kept for good, those of strangers up to `max_strangers`.

    A stranger who was forgotten with less than a full budget must not gain by it: when one had to be, new
    ones begin with no more than it had, until the minute in which it would have been full again is over.
    One in debt is forgotten only when there are nothing but such.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, max_strangers: int = MAX_STRANGERS
    ) -> None:
        self._clock = clock
        self._most = max_strangers
        self._listed: dict[str, Budget] = {}
        self._strangers: OrderedDict[str, Budget] = OrderedDict()
        self._forgotten = Bucket(1.0, 1.0 / MINUTE_S, clock())

    def __len__(self) -> int:
        return len(self._listed) + len(self._strangers)

    def take(self, limits: Sequence[Limit], tokens: int) -> float:
        now = self._clock()
        if len(limits) == 1:
            return self._find(limits[0], now).take(now, tokens)
        budgets = [self._find(limit, now) for limit in limits]
        wait_s = max(budget.wait_s(now, tokens) for budget in budgets)
        if wait_s <= 0:
            for budget in budgets:
                budget.give(now, -tokens, -1)
        return wait_s

    def give_back(self, limits: Sequence[Limit], tokens: int, requests: int = 0) -> None:
        now = self._clock()
        for limit in limits:
            self._find(limit, now).give(now, tokens, requests)

    def fullest(self) -> list[dict[str, object]]:
        """The budgets that are most used up, of those used lately."""
        now = self._clock()
        lately = itertools.islice(reversed(self._strangers.items()), LOOKED_AT)
        known = itertools.chain(self._listed.items(), lately)
        shares = ((1.0 - budget.share(now), key) for key, budget in known)
        used = ((share, key) for share, key in shares if share > 0)
        return [
            {
                "tenant": key.partition("\n")[0],
                "rule": key.partition("\n")[2] or None,
                "used": round(share, 4),
            }
            for share, key in heapq.nlargest(SHOWN, used)
        ]

    def _find(self, limit: Limit, now: float) -> Budget:
        if limit.is_listed:
            budget = self._listed.get(limit.key)
            if budget is None:
                budget = self._listed[limit.key] = Budget(limit.tokens, limit.requests, now, 1.0)
            return budget
        budget = self._strangers.get(limit.key)
        if budget is not None:
            self._strangers.move_to_end(limit.key)
            return budget
        if len(self._strangers) >= self._most:
            self._forget_one(now)
        budget = Budget(limit.tokens, limit.requests, now, self._forgotten.level(now))
        self._strangers[limit.key] = budget
        return budget

    def _forget_one(self, now: float) -> None:
        for _ in range(SEARCHED):
            key = next(iter(self._strangers))
            if self._strangers[key].share(now) >= 0:
                break
            self._strangers.move_to_end(key)
        share = max(0.0, self._strangers.popitem(last=False)[1].share(now))
        self._forgotten.give(min(0.0, share - self._forgotten.level(now)), now)
