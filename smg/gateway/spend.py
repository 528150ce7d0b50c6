"""What a request costs its tenant in tokens: guessed from its body, known from the answer's usage."""

from __future__ import annotations

from collections.abc import Awaitable

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg._fast.promptspan import prompt_spans
from smg._fast.usage import UsageMeter, guess_tokens
from smg.admission.tenants import Charge, Tenants
from smg.api.call import Call

MOST_TOKENS = 10**9
"""A worker that says more is not believed."""
# Where prompts stand, by endpoint; of others the whole body counts.
_MEMBERS = {
    "chat": (b"messages",),
    "completions": (b"prompt",),
    "generate": (b"text", b"input_ids"),
    "messages": (b"messages", b"system"),
    "responses": (b"input", b"instructions"),
    "embeddings": (b"input",),
}


class Spending:
    """Reserves and settles the cost of exchanges."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    def reserve(self, x: Exchange, call: Call) -> Charge | Awaitable[Charge]:
        """Take the estimate from the tenant's budget, at once or when the store has answered; raises 429."""
        x.meter = UsageMeter()
        return self._tenants.reserve(x.tenant, call.model, estimate(call))

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
    members = _MEMBERS.get(call.surface.endpoint)
    if members is None:
        return guess_tokens(body, None)
    total = 0
    for member in members:
        spans = prompt_spans(body, member)
        if spans is not None:
            total += guess_tokens(body, spans)
    return total or 1


def _spans(body: bytes, member: bytes) -> memoryview[int]:
    """Begins and ends of a prompt's texts, in turn."""
    return memoryview(prompt_spans(body, member) or b"").cast("q")


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
    body = x.body
    if not x.stream or x.route.endpoint != "generate" or body is None:
        return False
    texts, tokens = (
        memoryview(prompt_spans(body, name) or b"").cast("q") for name in (b"text", b"input_ids")
    )
    return (
        b'"n"' in body
        or (len(texts) > 0 and body[texts[0] - 1 : texts[0]] != b'"' and body[texts[0]] == ord("["))
        or (len(tokens) > 0 and body[tokens[0] : tokens[1]].translate(None, b" \t\r\n").startswith(b"[["))
    )
