"""A front, clients and workers without sockets: what the tests of connections play on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from smg._fast import exchange as fast
from smg._fast.egress import Egress, Pool
from smg._fast.exchange import Exchange
from smg._fast.front import Front
from smg._fast.head import RequestHead
from smg._fast.ingress import Ingress
from smg._fast.limits import Counts
from tests.fast.reference import answers, chunked, heads
from tests.fast.transports import DONE, FakeTransport, Timers, make_limits

Serve = Callable[[Exchange], Coroutine[Any, Any, None]]

LIMIT = 200_000
HEAD = b"POST /w HTTP/1.1\r\nhost: w\r\n\r\n"
BODY_ERRORS = {
    fast.BODY_TOO_LARGE: 413,
    fast.BODY_STALLED: 408,
    fast.BODY_LATE: 408,
    fast.BODY_ABORTED: 400,
    fast.BODY_MALFORMED: 400,
}
ATTEMPT_ERRORS = {
    fast.DIED: 502,
    fast.CUT: 502,
    fast.MALFORMED: 502,
    fast.TOO_LARGE: 502,
    fast.TIMED_OUT: 504,
}


def refuse(status: int, message: str) -> tuple[bytes, bytes, bytes]:
    return (b"No", b"", b"refused") if message else (b"", b"", b"")


class Fallback:
    """Stands in for aiohttp: answers each message, when it is whole, with the message itself."""

    def __init__(self, ingress: Ingress, at_once: bool) -> None:
        self._ingress = ingress
        self._at_once = at_once
        self.transport: Any = None
        self.received = b""
        self.pieces: list[bytes] = []
        self.lost: list[BaseException | None] = []
        self.writing = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.append(error)

    def head_received(self, head: RequestHead) -> None:
        self.data_received(head.raw)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.received += data
        if self._at_once and self.has_message:
            self.answer()

    def pause_writing(self) -> None:
        assert self.writing
        self.writing = False

    def resume_writing(self) -> None:
        assert not self.writing
        self.writing = True

    @property
    def has_message(self) -> bool:
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return False
        request = heads.read_request(head + end)
        if request.chunked:
            return chunked.decode(body).is_whole
        return len(body) >= max(request.content_length, 0)

    def answer(self, keep: bool = True) -> None:
        body, self.received = self.received, b""
        self.transport.write(b"HTTP/1.1 201 Slow\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        self._ingress.fallback_done(keep)


class Stage:
    """`serve` carries the exchanges of `/x`; every other path goes to the fallback."""

    def __init__(self, serve: Serve, *, fallback_at_once: bool = True, **limits: Any) -> None:
        self.timers = Timers()
        self.limits = make_limits(self.timers, **{"max_payload_bytes": LIMIT, **limits})
        self.counts = Counts()
        self.pool = Pool(self.limits, self.counts)
        self.workers: list[FakeTransport] = []
        self.exchanges: list[Exchange] = []
        self.ended: list[BaseException | None] = []
        self.fallbacks: list[Fallback] = []
        self._serve = serve
        self._at_once = fallback_at_once
        self.front = Front(
            self.limits,
            self.counts,
            routes={b"/x": "x"},
            serve=self._run,
            refuse=refuse,
            make_fallback=self._make_fallback,
        )

    async def _run(self, x: Exchange) -> None:
        self.exchanges.append(x)
        try:
            await self._serve(x)
        except BaseException as error:
            self.ended.append(error)
            raise
        else:
            self.ended.append(None)

    def _make_fallback(self, ingress: Ingress) -> Fallback:
        fallback = Fallback(ingress, self._at_once)
        self.fallbacks.append(fallback)
        return fallback

    @property
    def x(self) -> Exchange:
        return self.exchanges[-1]

    @property
    def worker(self) -> FakeTransport:
        return self.workers[-1]

    def client(self, *pieces: bytes, **options: Any) -> FakeTransport:
        transport = FakeTransport(**options).connect(Ingress(self.front))
        self.send(transport, *pieces)
        return transport

    def send(self, client: FakeTransport, *pieces: bytes) -> None:
        """Each piece is a read of its own, followed by a turn of the loop."""
        for piece in pieces:
            client.deliver(piece)
            self.turn()

    def turn(self) -> None:
        self.timers.turn()
        for one in [*self.workers, *(fallback.transport for fallback in self.fallbacks)]:
            one.release()
        self.timers.turn()

    def connection(self, **options: Any) -> Egress:
        """A worker connection: of the pool, or a new one."""
        egress = self.pool.take()
        if egress is None:
            egress = self.pool.make()
            self.workers.append(FakeTransport(**options).connect(egress))
        return egress

    def assert_settled(self) -> None:
        """Nothing runs, nothing waits; idle connections apart."""
        assert len(self.ended) == len(self.exchanges)
        assert not self.timers.failures
        assert self.limits.request.armed == self.limits.first_byte.armed == self.limits.body_stall.armed == 0
        assert self.limits.pool_idle.armed == len(self.pool.idle)
        assert self.counts.connections == len(self.front.open)


def post(body: bytes = b"", *lines: bytes, version: bytes = b"1.1", path: bytes = b"/x") -> bytes:
    fields = b"".join(line + b"\r\n" for line in (b"host: g", b"content-length: %d" % len(body), *lines))
    return b"POST " + path + b" HTTP/" + version + b"\r\n" + fields + b"\r\n" + body


def post_chunked(*pieces: bytes, path: bytes = b"/x", end: bool = True) -> bytes:
    head = b"POST " + path + b" HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunked.encode(*pieces, end=end)


def get(path: bytes = b"/slow", *lines: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nhost: g\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


async def echo(x: Exchange) -> None:
    """Answers with the body."""
    await x.receive_body(LIMIT)
    answer(x, x.body) if x.received == fast.BODY_COMPLETE else fail_body(x)


def answer(x: Exchange, body: bytes | None) -> None:
    assert body is not None
    x.answer(200, b"OK", b"", body)


def fail_body(x: Exchange) -> None:
    x.answer(BODY_ERRORS[x.received], b"No", b"", b"body %d" % x.received)


def fail_attempt(x: Exchange) -> None:
    x.answer(ATTEMPT_ERRORS[x.outcome], b"No", b"", b"attempt %d" % x.outcome)


def relaying(
    stage_of: Callable[[], Stage], *, stream: bool = True, piped: bool = False, **options: Any
) -> Serve:
    """Sends the body to a worker and gives the client what comes of it."""

    async def serve(x: Exchange) -> None:
        x.stream = stream
        if piped:
            x.pipe_body()
        else:
            await x.receive_body(LIMIT)
        await x.send(stage_of().connection(**options), HEAD, None if piped else x.body)
        if x.outcome == fast.ANSWERED:
            x.relay_answer()
        elif x.outcome == fast.BODY_FAILED:
            x.abort() if x.started else fail_body(x)
        elif x.outcome not in (fast.RELAYED, fast.BROKEN):
            fail_attempt(x)

    return serve


def relay_stage(
    *, stream: bool = True, piped: bool = False, worker: dict[str, Any] | None = None, **limits: Any
) -> Stage:
    made: list[Stage] = []
    made.append(Stage(relaying(lambda: made[0], stream=stream, piped=piped, **(worker or {})), **limits))
    return made[0]


def answers_of(client: FakeTransport) -> list[answers.Answer]:
    return answers.read_all(client.data, closed=client.is_closing)


async def forever() -> None:
    """Waits for what never comes, on a future of the running loop."""
    await asyncio.get_running_loop().create_future()


SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CODED = b"transfer-encoding: chunked\r\n\r\n"
FRAMES = [b'data: {"a": "h\xc3\xa9"}\n\n', b"event: x\r\ndata: 1\r\n\r\n", b": note\n\n", b"data:2\r\r", DONE]
STREAM = b"".join(FRAMES)


def sized(body: bytes) -> bytes:
    return b"content-length: %d\r\n\r\n" % len(body) + body


def play(
    pieces: tuple[bytes, ...], *, stream: bool = True, version: bytes = b"1.1", **limits: float
) -> tuple[Stage, FakeTransport]:
    """One exchange with a worker that sends the pieces, each in a turn of its own."""
    stage = relay_stage(stream=stream, **limits)
    client = stage.client(post(b"hello", version=version))
    for piece in pieces:
        stage.worker.deliver(piece)
        stage.turn()
    return stage, client
