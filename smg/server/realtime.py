"""The WebSocket of the Realtime API, `/v1/realtime`, and the workers' sockets of its sessions and calls.

A session is a lease of its worker from the upgrade to the end of the socket.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Protocol
from urllib.parse import quote, urlsplit

from aiohttp import ClientWebSocketResponse, web

from smg import errors
from smg.admission.identity import Tenant, bearer_key
from smg.api.call import Call
from smg.api.request_id import RESPONSE_HEADER
from smg.api.surfaces import REALTIME_SOCKET, Surface
from smg.gateway.record import CLIENT_CLOSED
from smg.gateway.route import Lease, Router
from smg.server.deps import Deps, header_bytes, request_id_of
from smg.server.frames import End, Session, Times
from smg.telemetry import logs
from smg.telemetry.failures import Failures
from smg.workers.engine import EngineError, SocketRefused
from smg.workers.registry import Change
from smg.workers.worker import Worker

log = logs.get("realtime")

Admit = Callable[[web.Request, Tenant], AbstractAsyncContextManager[object]]

CLOSE_S = 2.0
"""How long a client may take to answer the end of its session."""
PROTOCOL = "realtime"
KEY_PROTOCOL = "openai-insecure-api-key."
"""Browsers cannot add a header to an upgrade: OpenAI's clients put the key among the protocols."""
_ROUTED_HEADER = "x-smg-routed-worker-id"
_GOING_AWAY = 1001


class Stoppable(Protocol):
    """An open session or call."""

    def stop(self, code: int, reason: bytes) -> None: ...


class Realtime:
    """`sessions` are open now; `opened` and `failed` count all there were. `admit` gives the permit that a
    request holds; `failures` is told of refusals. `connect_s` bounds the upgrade at a worker,
    `max_message_bytes` a message either way."""

    def __init__(
        self,
        deps: Deps,
        router: Router,
        connect_s: float,
        max_message_bytes: int,
        admit: Admit | None = None,
        failures: Failures | None = None,
        times: Times | None = None,
    ) -> None:
        self._deps = deps
        self._router = router
        self._connect_s = connect_s
        # aiohttp takes messages below its limit.
        self._limit = max_message_bytes + 1
        self.admit = admit or (lambda request, tenant: nullcontext())
        self._failures = failures or Failures()
        self.times = times
        self._none_left = asyncio.Event()
        self._none_left.set()
        self.sessions: dict[Stoppable, Worker] = {}
        deps.registry.on_change(self._on_change)
        self.opened = 0
        self.failed = 0
        # It would log the protocols that clients offer, and so their keys.
        logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)

    def routes(self) -> list[web.RouteDef]:
        return [web.get(REALTIME_SOCKET.path, self.connect, allow_head=False)]

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """A session, from the upgrade to its end."""
        authorization = _authorization_of(request)
        tenant = self._deps.identity.identify(authorization)
        model = self._deps.registry.resolve(request.query.get("model", ""))
        try:
            if not model:
                raise errors.missing_realtime_model()
            client = self._upgrade_of(request)
            async with self.admit(request, tenant):
                return await self._serve(request, client, model, authorization)
        except errors.GatewayError as error:
            request_id = request_id_of(request, self._deps.request_ids)
            self._failures.add(REALTIME_SOCKET.path, error.status, str(error.code), model, "", request_id)
            raise

    async def _serve(
        self, request: web.Request, client: web.WebSocketResponse, model: str, authorization: bytes | None
    ) -> web.StreamResponse:
        async with self.worker_socket(REALTIME_SOCKET, model, authorization) as (lease, socket):
            client.headers[_ROUTED_HEADER] = lease.worker.url
            try:
                await client.prepare(request)
            except ConnectionError:
                return web.Response(status=CLIENT_CLOSED)  # it left meanwhile and will not see this
            await self._relay(client, socket, lease.worker, model)
        return client

    async def close(self) -> None:
        """End every session as one does who goes away."""
        for session in list(self.sessions):
            session.stop(_GOING_AWAY, b"the gateway is shutting down")
        try:
            async with asyncio.timeout(2 * CLOSE_S):
                await self._none_left.wait()
        except TimeoutError:
            log.warn("realtime sessions did not close", sessions=len(self.sessions))

    def _on_change(self, change: Change, worker: Worker) -> None:
        """A worker that is taken away has drained for as long as it may; its sessions end."""
        if change is Change.REMOVED:
            for session, owner in self.sessions.items():
                if owner is worker:
                    session.stop(_GOING_AWAY, b"the worker is taken away")

    def _upgrade_of(self, request: web.Request) -> web.WebSocketResponse:
        """The answer to the upgrade; raises 400 and 403."""
        origin = request.headers.get("Origin")
        # Without keys, a page that a user of this host looks at must not be the user.
        if origin is not None and self._deps.identity.is_open and not self._may_connect(request, origin):
            raise errors.origin_not_allowed()
        client = web.WebSocketResponse(
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=self._limit,
            timeout=CLOSE_S,
            protocols=(PROTOCOL,),
        )
        if not client.can_prepare(request):
            raise errors.no_upgrade()
        client.headers[RESPONSE_HEADER] = request_id_of(request, self._deps.request_ids)
        return client

    def _may_connect(self, request: web.Request, origin: str) -> bool:
        allowed = any(name == "Access-Control-Allow-Origin" for name, _ in self._deps.cors.headers(origin))
        return allowed or _host_of(origin) == request.host

    def check_surface(self, surface: Surface) -> None:
        """Raises 501 when there are only workers that have no sessions at all."""
        self._router.check_surface(surface)

    def check(self, surface: Surface, model: str) -> None:
        """Raises 404, 501 and 503 when no worker would take a session of the model."""
        with self._router.lease(Call(surface, model, True, None), lambda name: None):
            pass

    @asynccontextmanager
    async def worker_socket(
        self, surface: Surface, model: str, authorization: bytes | None
    ) -> AsyncIterator[tuple[Lease, ClientWebSocketResponse]]:
        """The least loaded worker that takes the session, leased, and the socket to it."""
        call = Call(surface, model, True, None)
        tried: tuple[Worker, ...] = ()
        number = 0
        while True:
            number += 1
            with self._router.lease(call, lambda name: None, tried) as lease:
                try:
                    socket = await self._open(lease, model, authorization)
                except errors.GatewayError as error:
                    failure = error.with_traceback(None)
                else:
                    try:
                        yield lease, socket
                    finally:
                        await socket.close()
                    return
            self.failed += 1
            if lease.worker not in tried:
                tried = (*tried, lease.worker)
            if not self._router.may_retry(failure.retry, call, number, tried, lease.worker):
                raise failure
            await asyncio.sleep(self._router.delay_s(number, lease.worker))

    async def _open(self, lease: Lease, model: str, authorization: bytes | None) -> ClientWebSocketResponse:
        worker = lease.worker
        # http becomes ws, https wss.
        url = f"ws{worker.base_url.removeprefix('http')}{REALTIME_SOCKET.path}?model={quote(model, safe='')}"
        value = self._towards(worker, authorization)
        headers = {"Authorization": value} if value is not None else {}
        try:
            connect_s = worker.connections.connect_s or self._connect_s
            socket = await self._deps.client.open_socket(url, headers, connect_s, self._limit)
        except SocketRefused as refused:
            lease.answered(refused.status)
            raise errors.realtime_refused(refused.status, worker.retryable) from None
        except EngineError as problem:
            log.warn("no realtime session", worker=worker.url, problem=str(problem))
            lease.failed(unreachable=True)
            raise errors.call_upstream_connection_failed() from None
        # Not when the session ends: that may be hours away.
        worker.breaker.record(True, time.monotonic())
        return socket

    def _towards(self, worker: Worker, authorization: bytes | None) -> str | None:
        """What a worker is shown: the caller's header, else the worker's own key. Keys of this gateway are
        of no use to a provider."""
        key = bearer_key(authorization)
        is_ours = worker.is_external and key is not None and self._deps.identity.is_gateway_key(key)
        if authorization is not None and authorization.isascii() and not (is_ours and worker.api_key):
            return authorization.decode()
        return f"Bearer {worker.api_key}" if worker.api_key is not None else None

    async def _relay(
        self, client: web.WebSocketResponse, socket: ClientWebSocketResponse, worker: Worker, model: str
    ) -> None:
        session = Session(client, socket, self.times)
        begun = time.monotonic()
        end = End("client", _GOING_AWAY)
        with self.open(session, worker):
            try:
                end = await session.run()
            finally:
                log.info(
                    "realtime session",
                    request_id=client.headers[RESPONSE_HEADER],
                    model=model,
                    worker=worker.url,
                    seconds=round(time.monotonic() - begun, 3),
                    ended_by=end.by,
                    close_code=int(end.code),
                    frames_in=session.client.frames,
                    frames_out=session.worker.frames,
                    bytes_in=session.client.size,
                    bytes_out=session.worker.size,
                )

    @contextmanager
    def open(self, session: Stoppable, worker: Worker) -> Iterator[None]:
        """Count a session while it is open; `close` stops it."""
        self.sessions[session] = worker
        self._none_left.clear()
        self.opened += 1
        try:
            yield
        finally:
            del self.sessions[session]
            if not self.sessions:
                self._none_left.set()


def _host_of(origin: str) -> str | None:
    """With the port, if there is one; None: that is no origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _authorization_of(request: web.Request) -> bytes | None:
    """The caller's header, or the key that a browser put among the protocols."""
    header = header_bytes(request, "Authorization")
    if header is not None:
        return header
    for value in request.headers.getall("Sec-WebSocket-Protocol", ()):
        for name in value.split(","):
            if name.strip().startswith(KEY_PROTOCOL):
                return b"Bearer " + name.strip().removeprefix(KEY_PROTOCOL).encode("utf-8", "surrogateescape")
    return None
