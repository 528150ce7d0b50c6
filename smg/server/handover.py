"""aiohttp's side of a shared connection: it answers one message at a time and then gives it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from smg._fast.head import RequestHead
from smg._fast.ingress import Ingress

# The ingress watches idle connections itself and has bounded every head already.
_NEVER_S = 1e9
_HEAD_BYTES = 65536 + 1024
# Headers that aiohttp refuses the second time, in words of its own, although no framing hangs on them.
_ONCE = frozenset(b"content-type content-location content-range etag max-forwards server user-agent".split())
# And one that it never takes.
_NEVER = b"sec-websocket-key1"


class Cuttable(Protocol):
    def cut(self) -> None: ...


class HandedOver(RequestHandler):
    """Tells the ingress when an answer has been written, so that it can read the next message.

    `carrier`: who carries the exchange of the message that is being answered, to be told when the
    connection is lost.
    """

    __slots__ = ("_is_draining", "carrier", "ingress")

    def __init__(
        self,
        server: web.Server,
        ingress: Ingress,
        loop: asyncio.AbstractEventLoop,
        is_draining: Callable[[], bool],
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=_NEVER_S,
            max_line_size=_HEAD_BYTES,
            max_field_size=_HEAD_BYTES,
            auto_decompress=False,
        )
        self.ingress = ingress
        self.carrier: Cuttable | None = None
        self._is_draining = is_draining

    def head_received(self, head: RequestHead) -> None:
        """The ingress has read the head of a message; `data_received` gets the body."""
        self.data_received(acceptable(head))

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.carrier is not None:
            self.carrier.cut()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if self._is_draining() and not resp.prepared:
            resp.force_close()
        resp, lost = await super().finish_response(request, resp, start_time)
        if not lost and self.ingress.fallback_done(bool(resp.keep_alive)):
            # The ingress lets the client read the answer first.
            self.transport = None
            self._lingering_time = 0.0
        return resp, lost


def acceptable(head: RequestHead) -> bytes:
    """The head as aiohttp takes it: of what may stand there once, the first counts, as it does everywhere."""
    lines = head.items()
    names = [name.lower() for name, _ in lines]
    if len(set(names)) == len(names) and _NEVER not in names:
        return head.raw
    kept = [head.raw[: head.raw.index(b"\r\n")]]
    seen = {_NEVER}
    for name, (spelled, value) in zip(names, lines, strict=True):
        if name not in seen:
            kept.append(b"%b: %b" % (spelled, value))
        if name in _ONCE:
            seen.add(name)
    return b"\r\n".join((*kept, b"", b""))


def handing_over(server: web.Server, is_draining: Callable[[], bool]) -> Callable[[Ingress], RequestHandler]:
    """Makes the protocol that answers an ingress's messages with the application of `server`; while
    `is_draining` a connection ends with its answer."""
    loop = asyncio.get_running_loop()
    return lambda ingress: HandedOver(server, ingress, loop, is_draining)
