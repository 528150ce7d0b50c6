"""Decisions on an SGLang worker: asked as System One wants it, the reply put back into words of Decisions."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg.api.decisions import LARGE_DECISIONS, Decisions
from smg.api.decisions_systemone import PATH, InvalidReply, own_error_text, request_body, response_body
from smg.backends.off_loop import free_apart, off_loop

RUNTIME = "sglang"

_BAD_GATEWAY = 502
# What a worker says of the body that is replaced.
_OF_THE_BODY = frozenset(
    b"content-type content-encoding content-language content-location content-range content-md5 "
    b"content-digest repr-digest digest etag last-modified accept-ranges".split()
)


class Ask(Protocol):
    """Sends a body to the worker; as `Backend.forward` then."""

    async def __call__(self, x: Exchange, lease: Any, path: bytes, body: bytes, length: int) -> bool: ...


async def forward(x: Exchange, call: Decisions, lease: Any, ask: Ask) -> bool:
    """As `Backend.forward`. Raises 400 before the worker is asked, and 502 for a reply that is no answer."""
    assert call.body is not None
    size = len(call.body)
    made = [await off_loop(size, partial(request_body, call), LARGE_DECISIONS)]
    x.gather = True
    try:
        relayed = await ask(x, lease, PATH, made[0], len(made[0]))
    finally:
        free_apart(made)
    head, reply = x.answer_head, x.answer_body
    if x.outcome != fast.ANSWERED or head is None or reply is None:
        return relayed
    if head.status >= 400:
        problem = own_error_text(reply)
        if problem is not None:
            kept = tuple(_split(line) for line in _kept_lines(head.lines))
            raise errors.upstream_decisions_error(head.status, problem, kept, lease.worker.retryable)
    elif 200 <= head.status < 300:
        try:
            answer = await off_loop(size + len(reply), partial(response_body, call, reply), LARGE_DECISIONS)
        except InvalidReply as problem:
            lease.answered(_BAD_GATEWAY)
            raise errors.invalid_decisions_response(str(problem)) from None
        lines = b"".join(line + b"\r\n" for line in _kept_lines(head.lines))
        x.answer(head.status, head.reason, lines + b"content-type: application/json\r\n", answer)
        return True
    return relayed


def _kept_lines(lines: bytes) -> list[bytes]:
    """The worker's header lines that are true of another body too."""
    return [
        line for line in lines.split(b"\r\n") if line and line.partition(b":")[0].lower() not in _OF_THE_BODY
    ]


def _split(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name, value.strip()
