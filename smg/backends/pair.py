"""A decode worker, asked together with the prefill worker of the same lease: the client gets its answer.

SGLang's halves get the request at the same time and find each other by a room. Of vLLM's, the prefill worker
comes first, and the decode worker is told where the KV cache is. When one half fails, or the client leaves,
the other one's connection is closed.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
import uuid
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg._fast.head import ResponseHead
from smg._fast.side import Side
from smg.api import legs
from smg.api.call import Call
from smg.backends.http import HttpBackend
from smg.backends.off_loop import free_apart, off_loop
from smg.errors import GatewayError
from smg.workers.worker import Worker

VLLM = "vllm"
NIXL, MOONCAKE = "NixlConnector", "MooncakeConnector"

log = logging.getLogger("smg.backends")


class PairedLease(Protocol):
    """Of the decode worker, and in it that of the prefill worker, which ends with `end_prefill`."""

    prefill: Any

    def end_prefill(self) -> None: ...

    def blame_prefill(self) -> None: ...

    def answered(self, status: int) -> None: ...


class PairBackend:
    """`http` speaks to the decode worker."""

    def __init__(self, worker: Worker, http: HttpBackend) -> None:
        self._worker = worker
        self._http = http

    def forward(self, x: Exchange, call: Call, lease: PairedLease) -> Coroutine[Any, Any, bool]:
        """As `Backend.forward`."""
        x.routed_line = b""
        x.gather = False
        if self._worker.runtime == VLLM:
            return self._one_by_one(x, call, lease)
        return self._together(x, call, lease)

    def tune(self) -> None:
        self._http.tune()

    def close(self) -> None:
        self._http.close()

    # ---- SGLang

    async def _together(self, x: Exchange, call: Call, lease: PairedLease) -> bool:
        endpoint, sent = call.surface.endpoint, _body(call)
        prefill: Worker = lease.prefill.worker
        host, port = prefill.target.host, prefill.handover.bootstrap_port
        edit = functools.partial(legs.bootstrapped, endpoint, sent, host, port, _room)
        made = [await off_loop(len(sent), edit)]
        merges = await off_loop(len(sent), functools.partial(legs.wants_input_logprobs, endpoint, sent))
        side = Side(x, merges)
        if merges:
            side.edit(lambda events: legs.merge_into_events(side.exchange.answer_body or b"", events))
        side.exchange.trace = x.trace
        # A prefill worker that refuses is what the client shall hear of, however early the other one speaks.
        side.hold()
        side.run(_prefill(side, lease, made[0]))
        try:
            await self._decode(x, lease, made[0], side)
            if not side.is_over:
                await side.wait()
            _raise_unless_started(x, side)
            if merges and x.outcome == fast.ANSWERED:
                _answer_with_both(x, side.exchange.answer_body)
            return x.outcome == fast.RELAYED
        finally:
            side.drop()
            free_apart(made)

    async def _decode(self, x: Exchange, lease: PairedLease, body: bytes, side: Side) -> None:
        """Get the decode worker's answer, as long as the prefill worker has not failed."""
        _raise_unless_started(x, side)
        try:
            await self._http.ask(x, lease, x.head.path, body, len(body))
        except asyncio.CancelledError:
            # Either the request is over, or connecting was given up because the prefill worker failed.
            if x.client_left or x.interrupted or side.error is None:
                raise
        if side.error is None:
            _check(x, "decode", self._worker)

    # ---- vLLM

    async def _one_by_one(self, x: Exchange, call: Call, lease: PairedLease) -> bool:
        made: list[bytes] = []
        try:
            return await self._in_turn(x, call, lease, made)
        finally:
            free_apart(made)

    async def _in_turn(self, x: Exchange, call: Call, lease: PairedLease, made: list[bytes]) -> bool:
        """`made` gets the bodies that are sent."""
        endpoint, size = call.surface.endpoint, len(_body(call))
        made.append(await off_loop(size, functools.partial(legs.as_sent, endpoint, _body(call), x.body)))
        if await off_loop(size, functools.partial(legs.is_forked, endpoint, made[0])):
            lease.end_prefill()
        else:
            prefill: Worker = lease.prefill.worker
            transfer_id = f"xfer-{uuid.uuid4()}"
            params = _prefill_params(prefill, transfer_id)
            edit = functools.partial(legs.prefill_only, endpoint, made[0], params)
            made.append(await off_loop(size, edit))
            side = Side(x, True)
            side.exchange.trace = x.trace
            side.run(_prefill(side, lease, made[1]))
            try:
                if not side.is_over:
                    await side.wait()
                _raise_unless_started(x, side)
            finally:
                side.drop()
            handed = _decode_params(prefill, transfer_id, side.exchange.answer_body)
            made.append(await off_loop(size, functools.partial(legs.with_params, made[0], handed)))
        await self._http.ask(x, lease, x.head.path, made[-1], len(made[-1]))
        _check(x, "decode", self._worker)
        return x.outcome == fast.RELAYED


async def _prefill(side: Side, lease: PairedLease, body: bytes) -> None:
    """Carries the prefill worker's exchange."""
    x, prefill = side.exchange, lease.prefill
    x.on_first_event = prefill.on_first_event
    try:
        await prefill.worker.backend.ask(x, prefill, x.head.path, body, len(body))
        _check(x, "prefill", prefill.worker)
    except GatewayError as error:
        # Its traceback would lead to this frame, which holds the side: a cycle.
        side.error = error.with_traceback(None)
        lease.blame_prefill()
    except Exception:
        log.exception("the request to a prefill worker failed")
        side.error = errors.internal_error()
    finally:
        lease.end_prefill()
        side.finish()


def _check(x: Exchange, leg: str, worker: Worker) -> None:
    """Raise what the client is told of a worker that refused."""
    head, answer = x.answer_head, x.answer_body
    if x.outcome == fast.ANSWERED and head is not None:
        if head.status >= 400 or (leg == "prefill" and head.status >= 300):
            raise errors.leg_failed(leg, head.status, answer or b"", _retry_after(head), worker.retryable)
    elif leg == "prefill":
        if x.outcome == fast.RELAYED and x.status >= 300:
            raise errors.leg_failed(leg, x.status, b"")
        if x.outcome == fast.BROKEN:
            raise errors.read_response_body_failed()


def _raise_unless_started(x: Exchange, side: Side) -> None:
    """The prefill worker's failure counts as long as the client has got nothing of the other's answer."""
    if side.error is not None and not x.started:
        x.routed_line = b""
        raise side.error


def _retry_after(head: ResponseHead) -> tuple[tuple[str, str], ...]:
    for line in head.lines.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"retry-after":
            return (("Retry-After", value.strip().decode("latin-1")),)
    return ()


def _answer_with_both(x: Exchange, prefill: bytes | None) -> None:
    head, answer = x.answer_head, x.answer_body
    if head is None or answer is None or prefill is None or head.status != 200:
        return
    x.answer(head.status, head.reason, head.lines, legs.merge_input_logprobs(prefill, answer))


def _prefill_params(prefill: Worker, transfer_id: str) -> bytes | None:
    """What tells a prefill worker to keep the KV cache for another one."""
    connector = prefill.handover.kv_connector
    if connector not in (NIXL, MOONCAKE):
        return None
    params: dict[str, object] = {"do_remote_decode": True, "do_remote_prefill": False}
    if connector == MOONCAKE:
        params["transfer_id"] = transfer_id
    return msgspec.json.encode(params)


def _decode_params(prefill: Worker, transfer_id: str, answer: bytes | None) -> bytes | None:
    """Where the decode worker finds the KV cache; None: it is not told."""
    handover = prefill.handover
    if handover.kv_connector != MOONCAKE:
        return legs.handed_over(answer) if answer is not None else None
    host = prefill.target.host
    host = f"[{host}]" if ":" in host else host
    return msgspec.json.encode(
        {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "transfer_id": transfer_id,
            "remote_engine_id": handover.kv_engine_id,
            "remote_bootstrap_addr": f"http://{host}:{handover.bootstrap_port}",
        }
    )


def _room() -> int:
    """A number under which two halves find each other, unlikely to be another request's."""
    return 1 + secrets.randbelow(2**63 - 1)


def _body(call: Call) -> bytes:
    assert call.body is not None
    return call.body
