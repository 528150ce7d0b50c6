"""One HTTP worker: connections from its pool, the request it is sent, and what its failures mean."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Coroutine, Iterator
from typing import Any

from smg import errors
from smg._fast import exchange as fast
from smg._fast.egress import Egress, Pool
from smg._fast.exchange import Exchange
from smg._fast.limits import Counts, Limits
from smg.api.audio import Form, Transcription
from smg.api.call import Call
from smg.api.decisions import Decisions
from smg.api.request_id import is_valid
from smg.backends import systemone
from smg.backends.dial import Dialer
from smg.workers.worker import Worker

JSON = b"application/json"
Body = bytes | Form | None


class HttpBackend:
    """`connect_s` bounds the making of a connection (None: as `timeout_s`), `timeout_s` a whole attempt;
    seconds. What the worker has of its own goes before them."""

    def __init__(
        self,
        worker: Worker,
        limits: Limits,
        counts: Counts,
        tls: ssl.SSLContext | None,
        connect_s: float | None,
        timeout_s: float,
    ) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._pool = Pool(limits, counts)
        self._limits = limits
        self._counts = counts
        self.dialer = Dialer(worker.target, self._leave_connections)
        self._limit = limits.max_payload_bytes
        self._tls = tls if worker.target.tls else None
        self._general = connect_s, timeout_s
        self.tune()
        self._heads: dict[bytes, bytes] = {}
        self._routed_line = b"x-smg-routed-worker-id: " + worker.url.encode() + b"\r\n"

    def forward(self, x: Exchange, call: Call, lease: Any) -> Coroutine[Any, Any, bool]:
        """Get the worker's answer. Returns when the client has it, or when `x` holds it; raises when
        there is none to be had."""
        x.routed_line = b""
        x.gather = False
        if type(call) is not Call:
            return self._forward_special(x, call, lease)
        length = x.head.content_length if call.body is None else len(call.body)
        return self.ask(x, lease, x.head.path, call.body, length)

    def _forward_special(self, x: Exchange, call: Call, lease: Any) -> Coroutine[Any, Any, bool]:
        """A call whose body depends on the worker, or is no bytes."""
        if isinstance(call, Decisions) and self._worker.runtime == systemone.RUNTIME:
            return systemone.forward(x, call, lease, self.ask)
        if isinstance(call, Transcription):
            form = call.form
            return self.ask(x, lease, x.head.path, form, form.length, form.content_type)
        length = x.head.content_length if call.body is None else len(call.body)
        return self.ask(x, lease, x.head.path, call.body, length)

    async def ask(
        self, x: Exchange, lease: Any, path: bytes, body: Body, length: int, content_type: bytes = JSON
    ) -> bool:
        if x.begun_ns > self.dialer.due_ns:
            self.dialer.look_again()
        head = self._request_head(x, path, length, content_type)
        # A body that is passed on as it comes cannot be sent twice, so it gets a connection nobody has used.
        egress = self._pool.take() if body is not None else None
        if egress is not None:
            x.routed_line = self._routed_line
            await x.send(egress, head, _sendable(body))
            if x.outcome != fast.DIED or egress.heard or not egress.reused:
                return self._judge(x, lease)
            x.routed_line = b""
        # An upload is not tried again when the worker cannot be reached, as its clients know it.
        egress = await self._connect(lease, errors.Retry.NO if isinstance(body, Form) else errors.Retry.YES)
        x.routed_line = self._routed_line
        await x.send(egress, head, _sendable(body))
        return self._judge(x, lease)

    def tune(self) -> None:
        """Take over what the worker has of its own now."""
        own, (connect_s, timeout_s) = self._worker.connections, self._general
        self._timeout_s = own.request_s or timeout_s
        self._connect_s = own.connect_s or connect_s or self._timeout_s
        self._pool.tune(own.max_idle, own.request_s, own.idle_s)

    @property
    def heard_at(self) -> float:
        """When a byte of an answer came last, by the monotonic clock."""
        return self._pool.heard_at

    def close(self) -> None:
        self.dialer.close()
        self._pool.close()

    def _leave_connections(self) -> None:
        """They lead to where the worker is no more: those in use are closed when they become idle."""
        self._pool.close()
        self._pool = Pool(self._limits, self._counts)
        self.tune()

    def _judge(self, x: Exchange, lease: Any) -> bool:
        outcome = x.outcome
        if outcome in (fast.ANSWERED, fast.RELAYED):
            lease.answered(x.answer_head.status if x.answer_head is not None else x.status)
            return outcome == fast.RELAYED
        if outcome == fast.BROKEN:  # the client was told; a broken stream is no sample for the breaker
            return True
        if outcome in (fast.BODY_FAILED, fast.WITHDRAWN):
            x.routed_line = b""
            if x.received == fast.BODY_LATE and outcome == fast.BODY_FAILED:
                raise errors.request_body_timeout(self._timeout_s)
            return False
        if outcome == fast.TOO_LARGE:
            raise errors.upstream_response_too_large(self._limit)
        lease.failed(unreachable=outcome in (fast.DIED, fast.CUT))
        if outcome == fast.CUT:
            raise errors.read_response_body_failed()
        x.routed_line = b""
        if outcome == fast.TIMED_OUT:
            raise errors.call_upstream_timeout(self._timeout_s)
        if outcome == fast.MALFORMED:
            raise errors.call_upstream_request_error("The worker's answer is not HTTP")
        raise errors.call_upstream_request_error()

    def _request_head(self, x: Exchange, path: bytes, length: int, content_type: bytes) -> bytes:
        """The head of the request to the worker: of the client's headers the allow-list, as sent."""
        source = x.head
        fixed = self._heads.get(path)
        if fixed is None:
            # As many entries as there are routes: other paths never get here.
            target = self._worker.target
            fixed = (
                f"POST {target.path}{path.decode()} HTTP/1.1\r\nhost: {target.authority}\r\n"
                "accept: */*\r\ncontent-type: "
            ).encode()
            self._heads[path] = fixed
        fixed += content_type
        forward = source.forward if x.trace is None else x.trace.forward(self._worker.url)
        if self._worker.api_key is not None and source.get(b"authorization") is None:
            forward += b"authorization: Bearer %b\r\n" % self._worker.api_key.encode()
        sent_id = source.get(b"x-request-id")
        if not sent_id:
            return b"%b\r\n%bcontent-length: %d\r\n\r\n" % (fixed, forward, length)
        if not is_valid(sent_id):
            sent_id = x.request_id
        return b"%b\r\n%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (fixed, forward, sent_id, length)

    async def _connect(self, lease: Any, retry: errors.Retry) -> Egress:
        # A task of its own, since the exchange's driver is none and a timeout needs one.
        opening = self._loop.create_task(self._open())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._keep)  # the client left; the next one can have the connection
            raise
        except OSError as error:  # a TimeoutError as well
            # Its traceback leads to this frame, and the frame to the task that keeps it: a cycle.
            error.__traceback__ = None
        lease.failed(unreachable=True)
        raise errors.call_upstream_connection_failed(retry)

    def _keep(self, opening: asyncio.Task[Egress]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._pool.put_back(opening.result())

    async def _open(self) -> Egress:
        begun = time.monotonic()
        egress = await self.dialer.open(self._pool.make, self._tls, self._connect_s)
        self._counts.connecting.add(time.monotonic() - begun)
        return egress


def _sendable(body: Body) -> bytes | Iterator[bytes] | None:
    return iter(body) if isinstance(body, Form) else body


def tls_context(ca_paths: list[str], cert_path: str | None, key_path: str | None) -> ssl.SSLContext:
    """For workers reached by https: the system's authorities, or the given ones; HTTP/1.1 only."""
    context = ssl.create_default_context(cafile=ca_paths[0] if ca_paths else None)
    for path in ca_paths[1:]:
        context.load_verify_locations(cafile=path)
    if cert_path is not None:
        context.load_cert_chain(cert_path, key_path)
    context.set_alpn_protocols(["http/1.1"])
    return context
