"""Whole exchanges without sockets: real front, gateway, registry and pools between scripted ends.

A flow is driven by hand: `client.sends(...)`, `worker.sends(...)`, `flow.expire(...)`. After each step
the loop runs until nothing is left to do; its clock moves only by `flow.pass_time`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from smg import errors
from smg._fast.exchange import Exchange
from smg._fast.front import Front
from smg._fast.ingress import Ingress
from smg._fast.limits import Counts
from smg.admission.gate import Gate
from smg.admission.identity import Identity
from smg.admission.permits import Permits
from smg.admission.tenants import Tenants
from smg.api.request_id import RequestIds
from smg.api.surfaces import SURFACES
from smg.backends.http import HttpBackend
from smg.config.model import AIOHTTP, Retry
from smg.config.specs import WorkerUrl
from smg.gateway.admit import Admission
from smg.gateway.explain import Explainer
from smg.gateway.gateway import Gateway
from smg.gateway.record import Recorder
from smg.gateway.route import Router
from smg.gateway.serve import serve
from smg.gateway.spend import Spending
from smg.policies.round_robin import RoundRobin
from smg.server.data_plane import DataPlane, Serve, ask_later
from smg.server.handover import HandedOver, handing_over
from smg.telemetry.metrics import Metrics
from smg.workers.breaker import Breaker, State
from smg.workers.registry import Registry
from smg.workers.worker import Backend, ModelCard, Status, Worker
from tests.fast.reference import answers, chunked, heads
from tests.fast.reference.answers import Answer
from tests.fast.transports import FakeTransport, Timers, armed, make_limits, pass_a_moment

T = TypeVar("T")
LIMIT = 100_000
CONNECT_S = 7.0
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class _Remembering(Recorder):
    """Keeps every exchange it has recorded."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.recorded: list[Exchange] = []

    def __call__(self, x: Exchange) -> None:
        self.recorded.append(x)
        super().__call__(x)


class _NoSockets:
    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None:
        pass


async def _nobody(authorization: bytes | None) -> bool:
    return False


class FlowLoop(asyncio.BaseEventLoop):
    """A loop without input or output. `connector` makes the connections it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSockets()
        self.now = 0.0
        self.failures: list[dict[str, Any]] = []
        self.connector: Any = None
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    def time(self) -> float:
        return self.now

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.connector(factory, host)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """A name is its own address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    def settle(self) -> None:
        """Run until nothing is ready."""
        while True:
            self.call_soon(self.stop)
            self.run_forever()
            if not self._ready:  # type: ignore[attr-defined]
                return

    def call(self, function: Callable[[], T]) -> T:
        """Call a function as a callback of the loop, and run what it sets off."""
        results: list[T] = []
        self.call_soon(lambda: results.append(function()))
        self.settle()
        if not results:
            raise self.failures.pop()["exception"]
        return results[0]


class _Clock:
    """Breakers ask it instead of the machine."""

    def __init__(self) -> None:
        self.now = 1000.0


class ClockedBreaker(Breaker):
    """Goes by the flow's clock."""

    __slots__ = ("_clock",)

    def __init__(self, clock: _Clock, failure_threshold: int) -> None:
        super().__init__(failure_threshold, 1, 60.0, 120.0, True)
        self._clock = clock

    def would_allow(self, now: float) -> bool:
        return super().would_allow(self._clock.now)

    def allows(self, now: float) -> bool:
        return super().allows(self._clock.now)

    def record(self, ok: bool, now: float, unreachable: bool = False) -> None:
        super().record(ok, self._clock.now, unreachable)


class WorkerEnd:
    """One worker: its connections, newest last, and what it says on the newest."""

    def __init__(self, flow: Flow, worker: Worker) -> None:
        self._flow = flow
        self.worker = worker
        self.connections: list[FakeTransport] = []
        self.connects = "at once"
        """Or `never`, `refused`: what happens to attempts to connect."""
        self.waiting: list[asyncio.Future[None]] = []
        self.full_above: int | None = None
        self.dials = 0

    async def connect(self, factory: Any) -> Any:
        self.dials += 1
        if self.connects == "never":
            self.waiting.append(asyncio.get_running_loop().create_future())
            await self.waiting[-1]
        if self.connects == "refused":
            raise ConnectionRefusedError
        protocol = factory()
        self.connections.append(FakeTransport(full_above=self.full_above).connect(protocol))
        return self.connections[-1], protocol

    def accepts(self) -> None:
        """Let the oldest attempt to connect succeed."""
        self._flow.loop.call(lambda: self.waiting.pop(0).set_result(None))

    @property
    def connection(self) -> FakeTransport:
        return self.connections[-1]

    @property
    def requests(self) -> list[tuple[heads.Request, bytes]]:
        """Every whole request that it has got, with its body."""
        found = []
        for connection in self.connections:
            data = connection.data
            while b"\r\n\r\n" in data:
                head, _, data = data.partition(b"\r\n\r\n")
                request = heads.read_request(head + b"\r\n\r\n")
                size = len(data) if request.chunked else max(request.content_length, 0)
                found.append((request, data[:size]))
                data = data[size:]
        return found

    def sends(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._flow.act(lambda piece=piece: self.connection.deliver(piece))  # type: ignore[misc]

    def answers(self, status: int = 200, body: bytes = b"{}", *lines: bytes) -> None:
        fields = b"".join(line + b"\r\n" for line in lines)
        self.sends(b"HTTP/1.1 %d Said\r\n%bcontent-length: %d\r\n\r\n%b" % (status, fields, len(body), body))

    def streams(self, *events: bytes, end: bool = False) -> None:
        self.sends(chunked.encode(*events, end=end))

    def resets(self) -> None:
        self._flow.act(self.connection.reset)

    def ends(self) -> None:
        self._flow.act(self.connection.end)


class ClientEnd:
    """One client connection."""

    def __init__(self, flow: Flow, **options: Any) -> None:
        self._flow = flow
        self.transport = FakeTransport(**options)
        flow.clients.append(self.transport)
        flow.act(lambda: self.transport.connect(Ingress(flow.front)))

    def sends(self, *pieces: bytes) -> ClientEnd:
        for piece in pieces:
            self._flow.act(lambda piece=piece: self.transport.deliver(piece))  # type: ignore[misc]
        return self

    def leaves(self) -> None:
        self._flow.act(self.transport.reset)

    def ends(self) -> None:
        self._flow.act(self.transport.end)

    @property
    def answers(self) -> list[Answer]:
        closed = self.transport.is_closing or self.transport.is_lost
        found = answers.read_all(self.transport.data, closed=closed)
        return [one for one in found if one.status != 100]

    @property
    def answer(self) -> Answer:
        [only] = self.answers
        return only

    @property
    def error(self) -> tuple[int, str]:
        """Status and code of the only answer, an error of the gateway's."""
        only = self.answer
        code = json.loads(only.body)["error"]["code"]
        assert only.get("x-smg-error-code") == code
        return only.status, code


class Flow:
    """`pipe_above`: bodies above this size are passed on unread. `permits` is given the loop."""

    def __init__(
        self,
        workers: int = 2,
        *,
        attempts: int = 5,
        pipe_above: int | None = None,
        failure_threshold: int = 100,
        api_key: str | None = None,
        permits: Callable[[FlowLoop], Permits] | None = None,
        tenants: Tenants | None = None,
        tenant_header: str | None = None,
        data_path: str = "fast",
        **limits: Any,
    ) -> None:
        self.loop = FlowLoop()
        self.loop.connector = self._connect
        self.timers = Timers()
        self.timers.call_soon = self.loop.call_soon  # type: ignore[assignment, method-assign]
        self.timers.call_exception_handler = self.loop.call_exception_handler  # type: ignore[method-assign]
        self.limits = make_limits(self.timers, **{"max_payload_bytes": LIMIT, **limits})
        self.counts = Counts()
        self.clock = _Clock()
        self.metrics = Metrics()
        self._recorder = _Remembering(self.metrics)
        self.recorded = self._recorder.recorded
        self.begun = 0
        self.clients: list[FakeTransport] = []
        self._data_path = data_path
        self.permits = permits(self.loop) if permits is not None else Gate(None, 0, 1, self.loop)
        self.tenants = tenants
        self.registry = Registry(attach=self._attach)
        self.ends = [self.loop.call(lambda n=n: self._add(n, failure_threshold)) for n in range(workers)]  # type: ignore[misc]
        self.front = self._front(
            Retry(retry_max_retries=attempts, retry_jitter_factor=0.0),
            pipe_above,
            Identity(api_key, [], tenant_header),
        )

    # ---- building

    def _front(self, retry: Retry, pipe_above: int | None, identity: Identity) -> Front:
        admission = Admission(identity, RequestIds(()), self.registry.resolve, LIMIT, 1800, 300)
        router = self._router(retry)
        spending = Spending(self.tenants) if self.tenants is not None else None
        explain = Explainer(_nobody)
        gateway = Gateway(admission, router, self._recorder, pipe_above, self.permits, explain, spending)

        def begin(x: Exchange) -> Any:
            self.begun += 1
            return serve(x, gateway)

        routes = {surface.path.encode(): surface for surface in SURFACES}
        is_lent = self._data_path == AIOHTTP
        return Front(
            self.limits,
            self.counts,
            routes={} if is_lent else routes,
            lent=frozenset(routes if is_lent else ()),
            serve=begin,
            refuse=lambda status, message: (b"No", b"", b"refused"),
            make_fallback=self._aiohttp(begin) if is_lent else lambda ingress: None,  # type: ignore[arg-type, return-value]
        )

    def _aiohttp(self, serve: Serve) -> Callable[[Ingress], HandedOver]:
        app = web.Application()
        answer = DataPlane(serve).answer
        app.add_routes([web.post(one.path, answer, expect_handler=ask_later) for one in SURFACES])
        runner = web.AppRunner(app, handle_signals=False, access_log=None)
        self.loop.run_until_complete(runner.setup())
        server = runner.server
        assert server is not None
        return self.loop.call(lambda: handing_over(server, lambda: False))

    def _router(self, retry: Retry) -> Router:
        return Router(self.registry, RoundRobin, retry)

    def _add(self, number: int, failure_threshold: int) -> WorkerEnd:
        url = WorkerUrl.parse(f"http://w{number}:8000")
        worker = Worker(url, ClockedBreaker(self.clock, failure_threshold), cards=[ModelCard("m")])
        self._prepare(worker, number)
        self.registry.add(worker)
        self.registry.set_status(worker, Status.READY)
        return WorkerEnd(self, worker)

    def _prepare(self, worker: Worker, number: int) -> None:
        """What a worker is before it is known."""

    def _attach(self, worker: Worker) -> Backend:
        return HttpBackend(worker, self.limits, self.counts, None, CONNECT_S, 1800)

    async def _connect(self, factory: Any, host: str) -> Any:
        return await self.worker(int(host[1:])).connect(factory)

    # ---- playing

    def worker(self, number: int) -> WorkerEnd:
        return self.ends[number]

    def client(self, *pieces: bytes, **options: Any) -> ClientEnd:
        return ClientEnd(self, **options).sends(*pieces)

    def act(self, action: Callable[[], object]) -> None:
        """Something happens to a transport; then the loop runs, and what reading held back goes on."""
        self.loop.call(action)
        for end in self.ends:
            for connection in end.connections:
                if connection.is_holding and connection.is_reading:
                    self.loop.call(connection.release)

    def expire(self, name: str) -> None:
        """Let a deadline pass for everything that waits in it."""
        pass_a_moment()
        assert self.loop.call(lambda: self.timers.fire(getattr(self.limits, name)))

    def fire_silence(self) -> None:
        pass_a_moment()
        self.loop.call(lambda: self.timers.fire())

    def pass_time(self, seconds: float) -> None:
        self.loop.now += seconds
        self.clock.now += seconds
        self.loop.settle()

    def back_off(self, number: int = 1) -> None:
        """The pause after attempt `number`."""
        retry = Retry()
        delay = retry.retry_initial_backoff_ms * retry.retry_backoff_multiplier ** (number - 1)
        self.pass_time(min(delay, retry.retry_max_backoff_ms) / 1000 + 0.001)

    @property
    def x(self) -> Exchange:
        return self.recorded[-1]

    def settled(self) -> None:
        """Every exchange was recorded once, and nothing of it is left."""
        for connection in [one for end in self.ends for one in end.connections] + self.clients:
            self.loop.call(connection.settle)
        assert not self.loop.failures, self.loop.failures
        assert len(self.recorded) == len({id(x) for x in self.recorded}) == self.begun
        # aiohttp has one for each open connection.
        open_ones = len(self.front.open) if self._data_path == AIOHTTP else 0
        assert len(asyncio.all_tasks(self.loop)) <= open_ones
        assert [end.worker.load for end in self.ends] == [0] * len(self.ends)
        assert self.permits.in_flight == 0 and self.permits.snapshot()["waiting"] == 0
        left = armed(self.limits)
        idle = left.pop("pool_idle", 0)
        assert set(left) <= {"idle", "linger"}, left
        alive = [one for end in self.ends for one in end.connections if not one.is_lost]
        assert idle == len(alive) == self.counts.upstreams
        assert all(one.is_reading for one in alive)
        for end in self.ends:
            breaker = end.worker.breaker
            assert breaker.state is not State.HALF_OPEN or breaker.would_allow(0)

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.settle()
        self.loop.close()


def chat(
    *lines: bytes,
    stream: bool = False,
    model: str = "m",
    text: str = "hi",
    path: bytes = b"/v1/chat/completions",
) -> bytes:
    """A whole chat request."""
    message: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}]}
    body = json.dumps(message | ({"stream": True} if stream else {})).encode()
    return request(body, *lines, path=path)


def request(body: bytes, *lines: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    fields = (b"host: g", b"content-type: application/json", b"content-length: %d" % len(body), *lines)
    return b"POST %b HTTP/1.1\r\n" % path + b"".join(line + b"\r\n" for line in fields) + b"\r\n" + body


def body_of(text: bytes) -> bytes:
    return text.partition(b"\r\n\r\n")[2]


STREAM_ERROR = errors.stream_error_frame
