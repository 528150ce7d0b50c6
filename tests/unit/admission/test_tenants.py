"""Reservations against budgets that answer at once or later."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence

import pytest

from smg.admission.identity import Tenant
from smg.admission.limits import Limit, Limits
from smg.admission.tenants import Charge, Tenants
from smg.config.side_files import DefaultScope, TenantsFile
from smg.errors import GatewayError
from tests.waiting import turns

RED = Tenant("red", "auth:red")


class Store:
    """Stands in for one that several gateways share; `late`: it has to be asked over the network."""

    def __init__(self, wait_s: float, late: bool) -> None:
        self.wait_s = wait_s
        self.late = late
        self.taken: list[tuple[str, int]] = []
        self.given: list[tuple[int, int]] = []

    def take(self, limits: Sequence[Limit], tokens: int) -> float | Awaitable[float]:
        self.taken += [(limit.key, tokens) for limit in limits]
        return self._later() if self.late else self.wait_s

    async def _later(self) -> float:
        await turns()
        return self.wait_s

    def give_back(self, limits: Sequence[Limit], tokens: int, requests: int = 0) -> None:
        self.given.append((tokens, requests))


def make(wait_s: float = 0.0, late: bool = False) -> tuple[Tenants, Store]:
    store = Store(wait_s, late)
    file = TenantsFile(default_policy=DefaultScope(tokens_per_minute=1, requests_per_minute=1))
    return Tenants(Limits(file), store), store


async def reserved(tenants: Tenants, model: str | None, tokens: int) -> Charge:
    charge = tenants.reserve(RED, model, tokens)
    return charge if isinstance(charge, Charge) else await charge


@pytest.mark.parametrize("late", [False, True])
async def test_what_was_too_much_is_given_back_and_what_was_too_little_is_taken(late: bool) -> None:
    tenants, store = make(late=late)
    for cost, given in ((4, 6), (25, -15)):
        charge = await reserved(tenants, "m", 10)
        tenants.settle(charge, cost)
        assert store.given[-1] == (given, 0)
    tenants.settle(await reserved(tenants, "m", 10), 10)
    assert len(store.given) == 2
    tenants.refund(await reserved(tenants, "m", 10))
    assert store.given[-1] == (10, 1)
    assert store.taken == [("auth:red", 10)] * 4
    assert (tenants.allowed, tenants.denied, tenants.refunded, tenants.spent) == (4, 0, 1, 39)
    assert tenants.snapshot()["tenants"] == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("wait_s", "told"), [(0.001, "1"), (1.0, "1"), (1.001, "2"), (59.5, "60"), (math.inf, None)]
)
async def test_when_to_come_again(wait_s: float, told: str | None, late: bool) -> None:
    tenants, _ = make(wait_s, late)
    with pytest.raises(GatewayError) as caught:
        await reserved(tenants, None, 5)
    assert (caught.value.status, caught.value.code) == (429, "tenant_rate_limit_exceeded")
    assert dict(caught.value.headers).get("Retry-After") == told
    assert (tenants.allowed, tenants.denied) == (0, 1)
