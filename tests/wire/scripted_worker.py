"""An engine on a raw socket: it answers the gateway's probes by itself and everything else as a test says.

A play is a coroutine that is given the connection and the request; it decides on every write, may
stay silent, close or reset. What came in, and when a connection ended, is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from smg.workers.load import LOADS, METRICS, OLD_LOAD
from tests.waiting import BOUND_S, turns
from tests.wire.endpoint import Endpoint

Play = Callable[["Connection", "Request"], Awaitable[None]]

LAST_CHUNK = b"0\r\n\r\n"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
_PROBES = (
    "/health",
    "/v1/models",
    "/server_info",
    "/model_info",
    "/version",
    "/get_server_info",
    "/get_model_info",
    LOADS,
    OLD_LOAD,
    METRICS,
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def plain(body: bytes, status: str = "200 OK", *lines: str, kind: str = "application/json") -> bytes:
    """A whole answer with a Content-Length; `lines` are further header lines."""
    head = [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def event(text: str) -> bytes:
    """One frame of a chat stream."""
    frame = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(frame, ensure_ascii=False).encode() + b"\n\n"


class Request:
    """One request as the worker saw it; names of headers in lower case."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        self.method, self.target, self.version = first.split(" ")
        self.headers = [
            (name.lower(), value.strip()) for name, _, value in (one.partition(":") for one in lines)
        ]
        self.body = b""

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def get(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)


class Connection(Endpoint):
    """One connection of the gateway to the worker."""

    def __init__(self, worker: ScriptedWorker) -> None:
        self.worker = worker
        self.received = 0
        self.ended = asyncio.Event()
        """Set once the connection is gone, whoever ended it."""
        self.exchanges = 0
        self._buffer = bytearray()
        self._request: Request | None = None
        self._play: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    # ---- for plays

    async def send(self, *pieces: bytes) -> None:
        """Write each piece by itself; the kernel may still join what the gateway has not read."""
        for piece in pieces:
            await self._may_write.wait()
            if self.transport.is_closing():
                raise ConnectionResetError
            self.transport.write(piece)
            await turns()

    async def answer(self, body: bytes = b'{"ok":true}', status: str = "200 OK", *lines: str) -> None:
        await self.send(plain(body, status, *lines))

    async def stream(self, *payloads: bytes, done: bool = True) -> None:
        """An event stream of one chunk a payload."""
        await self.send(SSE_HEAD, *(chunk(one) for one in payloads))
        if done:
            await self.send(chunk(DONE) + LAST_CHUNK)

    async def until_ended(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.ended.wait()

    # ---- the transport's callbacks

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=1 << 16)
        self.worker.connections.append(self)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._buffer += data
        self._advance()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set()
        self._may_write.set()
        if self._play is not None:
            self._play.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # ---- reading

    def _advance(self) -> None:
        if self._play is not None and not self._play.done():
            return
        if self._request is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._request = Request(bytes(self._buffer[: end + 4]))
            del self._buffer[: end + 4]
        request = self._request
        if self.worker.plays_at_head and request.method == "POST":
            self._request = None
            self._start(request)
            return
        length = int(request.get("content-length") or 0)
        assert request.get("transfer-encoding") is None, "the gateway sends lengths"
        if len(self._buffer) < length:
            return
        request.body = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._request = None
        self._start(request)

    def _start(self, request: Request) -> None:
        self._play = asyncio.get_running_loop().create_task(self._run(request))

    async def _run(self, request: Request) -> None:
        worker = self.worker
        path = request.target.removeprefix(worker.prefix)
        try:
            if request.method == "GET" and path in _PROBES:
                await self.send(worker.probe(path))
            else:
                self.exchanges += 1
                worker.requests.append(request)
                await worker.play(self, request)
        except ConnectionResetError:
            pass
        finally:
            self._play = None
        if not self.ended.is_set() and not self.transport.is_closing():
            self._advance()


async def answers_ok(connection: Connection, request: Request) -> None:
    """The play of a worker that is none of a test's business."""
    if b'"stream":true' in request.body.replace(b" ", b""):
        await connection.stream(event("Hello"))
    else:
        await connection.answer()


async def never_ends(connection: Connection, request: Request) -> None:
    """The play of a stream that goes on as fast as it is taken."""
    await connection.send(SSE_HEAD)
    while True:
        await connection.send(chunk(event("x")))


class ScriptedWorker:
    """`requests` and `connections` hold what came, probes not counted among the requests.

    `plays_at_head`: the play begins when the head is there; the body stays unread as far as it was
    not received with it.
    """

    def __init__(
        self,
        play: Play = answers_ok,
        model: str = "m",
        prefix: str = "",
        host: str = "127.0.0.1",
        name: str | None = None,
        plays_at_head: bool = False,
        receive_buffer: int | None = None,
    ) -> None:
        self.play = play
        self.model = model
        self.prefix = prefix
        self.host = host
        self.plays_at_head = plays_at_head
        self.requests: list[Request] = []
        self.connections: list[Connection] = []
        self.healthy = True
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        self._name = name
        self._receive_buffer = receive_buffer
        self._server: asyncio.Server | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> ScriptedWorker:
        self.tls = tls
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        sock = socket.socket(family)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        sock.bind((self.host, self.port))
        self.port = sock.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=sock, ssl=tls, backlog=1024)
        return self

    async def stop(self) -> None:
        """Refuse connections from now on, and end the open ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for one in self.connections:
            if one.transport is not None:
                one.transport.abort()
        with contextlib.suppress(TimeoutError):
            for one in self.connections:
                await one.until_ended()

    @property
    def url(self) -> str:
        host = self._name or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"

    @property
    def exchanges(self) -> list[Connection]:
        """The connections that carried a client's request."""
        return [one for one in self.connections if one.exchanges]

    def probe(self, path: str) -> bytes:
        if path == "/health":
            return plain(b"", "200 OK" if self.healthy else "503 Service Unavailable")
        if path == "/v1/models":
            card = {"id": self.model, "object": "model", "owned_by": "sglang"}
            return plain(json.dumps({"object": "list", "data": [card]}).encode())
        if path in ("/server_info", "/model_info"):
            return plain(json.dumps({"model_path": self.model}).encode())
        return plain(b"", "404 Not Found")
