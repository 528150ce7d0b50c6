"""aiohttp's side of a shared connection: it answers one message at a time and then gives it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from smg._fast.ingress import Ingress

# The ingress watches idle connections itself and has bounded every head already.
_NEVER_S = 1e9
_HEAD_BYTES = 65536 + 1024


class HandedOver(RequestHandler):
    """Tells the ingress when an answer has been written, so that it can read the next message."""

    __slots__ = ("_ingress", "_is_draining")

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
        self._ingress = ingress
        self._is_draining = is_draining

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if self._is_draining():
            resp.force_close()
        resp, lost = await super().finish_response(request, resp, start_time)
        if not lost:
            self._ingress.fallback_done(bool(resp.keep_alive))
        return resp, lost


def handing_over(server: web.Server, is_draining: Callable[[], bool]) -> Callable[[Ingress], RequestHandler]:
    """Makes the protocol that answers an ingress's messages with the application of `server`; while
    `is_draining` a connection ends with its answer."""
    loop = asyncio.get_running_loop()
    return lambda ingress: HandedOver(server, ingress, loop, is_draining)
