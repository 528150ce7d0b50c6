"""What a request costs its tenant in tokens: guessed from its body, known from the answer's usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg._fast.usage import UsageMeter, guess_tokens
from smg.admission.tenants import Charge, Tenants
from smg.api.call import LARGE_BODY, PROMPTS, Call

MOST_TOKENS = 10**9
"""A worker that says more is not believed."""


class Spending:
    """Reserves and settles the cost of exchanges."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    def reserve(self, x: Exchange, call: Call) -> Charge | Awaitable[Charge]:
        """Take the estimate from the tenant's budget, at once or when the store has answered; raises 429."""
        x.meter = UsageMeter()
        if call.body is not None and len(call.body) > LARGE_BODY:
            return self._reserve_large(x, call)
        return self._tenants.reserve(x.tenant, call.model, estimate(call))

    async def _reserve_large(self, x: Exchange, call: Call) -> Charge:
        tokens = await asyncio.get_running_loop().run_in_executor(None, estimate, call)
        paid = self._tenants.reserve(x.tenant, call.model, tokens)
        return paid if isinstance(paid, Charge) else await paid

    def settle(self, x: Exchange, charge: Charge) -> None:
        """The exchange has ended, in whatever way."""
        cost = cost_of(x, charge.tokens)
        if cost is None:
            self._tenants.refund(charge)
        else:
            self._tenants.settle(charge, cost)


def estimate(call: Call) -> int:
    """The prompt's tokens, about; a body that is no JSON costs none."""
    body = call.body
    if body is None:
        return 0
    # Of endpoints without prompts the whole body counts.
    members = PROMPTS.get(call.surface.endpoint)
    if members is None:
        return guess_tokens(body, None)
    total = 0
    for member in members:
        spans = call.spans(member)
        if spans is not None:
            total += guess_tokens(body, spans)
    return total or 1


def cost_of(x: Exchange, estimated: int) -> int | None:
    """What an exchange that has ended has cost; None: nothing, since no worker has answered."""
    meter = x.meter
    assert meter is not None
    if x.interrupted or x.error is not None:
        return 0 if x.error is not None and errors.is_refusal(x.error) and not x.interrupted else None
    if x.client_left and not x.first_byte_ns:
        # A prompt that a worker has begun to read is not free because its client left.
        return estimated if x.attempts else None
    tokens = min(meter.tokens, MOST_TOKENS)
    if x.status >= 400:
        return max(tokens, 0)
    if not x.started:  # gathered, and its client left
        return max(tokens, estimated)
    if x.outcome == fast.RELAYED and not _has_many_results(x):
        return tokens if tokens >= 0 else estimated + meter.events
    if x.outcome == fast.ANSWERED:
        return tokens if tokens >= 0 else estimated
    # What it said so far may not be the last word: each event was a token at least.
    prompt = max(meter.prompt, estimated) if _has_many_results(x) else _said(meter.prompt, estimated)
    return max(tokens, min(prompt + max(meter.completion, meter.events), MOST_TOKENS))


def _said(count: int, otherwise: int) -> int:
    return count if count >= 0 else otherwise


def _has_many_results(x: Exchange) -> bool:
    """Does a stream tell of several results in turn, each with counts of its own?"""
    call: Call = x.call
    return x.stream and x.route.endpoint == "generate" and call.has_many_results
