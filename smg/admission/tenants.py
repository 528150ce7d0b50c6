"""Tenants' rate limits: what a request may cost is reserved before a worker is asked, and put right after."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping

from smg import errors
from smg.admission.budgets import Budgets, LocalBudgets
from smg.admission.identity import Tenant
from smg.admission.limits import Limit, Limits


class Charge:
    """What one request has reserved."""

    __slots__ = ("limits", "tokens")

    def __init__(self, limits: tuple[Limit, ...], tokens: int) -> None:
        self.limits = limits
        self.tokens = tokens


class Tenants:
    """`allowed`, `denied` and `refunded` count requests; `spent` counts the tokens of those that ended."""

    def __init__(self, limits: Limits, budgets: Budgets) -> None:
        self._limits = limits
        self._budgets = budgets
        self.allowed = 0
        self.denied = 0
        self.refunded = 0
        self.spent = 0

    def reserve(self, tenant: Tenant, model: str | None, tokens: int) -> Charge | Awaitable[Charge]:
        """Pay an estimate in advance, at once or when the store has answered; raises 429."""
        charge = Charge(self._limits.find(tenant, model), tokens)
        wait_s = self._budgets.take(charge.limits, tokens)
        if isinstance(wait_s, float):
            return self._admit(charge, wait_s)
        return self._reserve_later(charge, wait_s)

    async def _reserve_later(self, charge: Charge, wait_s: Awaitable[float]) -> Charge:
        return self._admit(charge, await wait_s)

    def _admit(self, charge: Charge, wait_s: float) -> Charge:
        if wait_s > 0:
            self.denied += 1
            raise errors.tenant_rate_limit_exceeded(None if math.isinf(wait_s) else max(1, math.ceil(wait_s)))
        self.allowed += 1
        return charge

    def settle(self, charge: Charge, tokens: int) -> None:
        """It has cost so many tokens."""
        self.spent += tokens
        if tokens != charge.tokens:
            self._budgets.give_back(charge.limits, charge.tokens - tokens)

    def refund(self, charge: Charge) -> None:
        """It has cost nothing, and does not count."""
        self.refunded += 1
        self._budgets.give_back(charge.limits, charge.tokens, 1)

    def snapshot(self) -> Mapping[str, object]:
        """What an operator may want to see; the tenants are those nearest to their limits."""
        budgets = self._budgets
        near = budgets.fullest() if isinstance(budgets, LocalBudgets) else []
        return {
            "allowed": self.allowed,
            "denied": self.denied,
            "refunded": self.refunded,
            "spent_tokens": self.spent,
            "tenants": near,
        }
