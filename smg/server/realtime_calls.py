"""`POST /v1/realtime/calls`: the offer of a WebRTC call, answered when the extra `webrtc` is installed.

A call goes on when its offer has been answered, so it is a task of its own; the permit and the lease are
held by that task.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from types import ModuleType
from typing import NamedTuple

from aiohttp import web

from smg import errors
from smg.api.realtime import SDP, read_offer
from smg.api.request_id import generate
from smg.api.surfaces import REALTIME_CALLS
from smg.server.deps import Deps, header_bytes, read_body, request_id_of
from smg.server.realtime import Realtime
from smg.telemetry import logs

log = logs.get("realtime")

_BRIDGE = "smg.server.webrtc"
_MISSING = {"aiortc", "aioice", "av", "pylibsrtp", "OpenSSL", "google_crc32c", "pyee", "ifaddr", "dns"}


class Answer(NamedTuple):
    sdp: bytes
    worker: str


class RealtimeCalls:
    """`open` holds the tasks of the calls."""

    def __init__(self, deps: Deps, realtime: Realtime) -> None:
        self._deps = deps
        self._realtime = realtime
        self._module: ModuleType | None = None
        self._is_missing = False
        self.open: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.RouteDef]:
        return [web.post(REALTIME_CALLS.path, self.call)]

    async def call(self, request: web.Request) -> web.StreamResponse:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        # Nobody may be left to hear why there is none.
        answered.add_done_callback(lambda future: future.cancelled() or future.exception())
        task = asyncio.create_task(self._carry(request, answered), name="realtime call")
        self.open.add(task)
        task.add_done_callback(self.open.discard)
        answer = await answered
        headers = {
            "Location": f"{REALTIME_CALLS.path}/{generate('rtc_')}",
            "x-smg-routed-worker-id": answer.worker,
        }
        return web.Response(body=answer.sdp, status=201, content_type=SDP, headers=headers)

    async def close(self) -> None:
        """Cut the calls that are left."""
        for task in self.open:
            task.cancel()
        await asyncio.gather(*self.open, return_exceptions=True)

    async def _carry(self, request: web.Request, answered: asyncio.Future[Answer]) -> None:
        """The whole call; its answer, or why there is none, goes to `answered`."""
        try:
            authorization = header_bytes(request, "Authorization")
            tenant = self._deps.identity.identify(authorization)
            async with self._realtime.admit(request, tenant):
                await self._bridge(request, authorization, answered)
        except errors.GatewayError as error:
            _fail(answered, error.with_traceback(None))
        except Exception as bug:
            log.exception("realtime call failed", bug)
            _fail(answered, errors.internal_error())
        finally:
            _fail(answered, errors.shutting_down())

    async def _bridge(
        self, request: web.Request, authorization: bytes | None, answered: asyncio.Future[Answer]
    ) -> None:
        self._realtime.check_surface(REALTIME_CALLS)
        kind = header_bytes(request, "Content-Type")
        offer = read_offer(kind, await read_body(request), request.query.get("model", ""))
        offer.rename(self._deps.registry.resolve(offer.model))
        webrtc = await self._load()
        if webrtc is None:
            self._realtime.check(REALTIME_CALLS, offer.model)
            raise errors.webrtc_not_supported()
        bridge = webrtc.Bridge(offer, self._realtime.times)
        try:
            await bridge.accept()
            async with self._realtime.worker_socket(REALTIME_CALLS, offer.model, authorization) as (
                lease,
                socket,
            ):
                answered.set_result(Answer(await bridge.answer(), lease.worker.url))
                begun = time.monotonic()
                with self._realtime.open(bridge, lease.worker):
                    end = await bridge.run(socket)
                log.info(
                    "realtime call",
                    request_id=request_id_of(request, self._deps.request_ids),
                    model=offer.model,
                    worker=lease.worker.url,
                    seconds=round(time.monotonic() - begun, 3),
                    ended_by=end.by,
                    close_code=int(end.code),
                )
        finally:
            await bridge.close()

    async def _load(self) -> ModuleType | None:
        """The module that ends calls; it and what it needs are large and imported with the first call."""
        if self._module is None and not self._is_missing:
            loop = asyncio.get_running_loop()
            try:
                self._module = await loop.run_in_executor(None, importlib.import_module, _BRIDGE)
            except ModuleNotFoundError as missing:
                if (missing.name or "").partition(".")[0] not in _MISSING:
                    raise
                self._is_missing = True
        return self._module


def _fail(answered: asyncio.Future[Answer], error: errors.GatewayError) -> None:
    if not answered.done():
        answered.set_exception(error)
