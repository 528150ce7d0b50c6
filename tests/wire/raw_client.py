"""A client on a raw socket: sends any bytes, and reads answers by a parser of its own, slow and strict."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from typing import Any

from tests.waiting import BOUND_S, turns
from tests.wire.endpoint import Endpoint

CHAT = "/v1/chat/completions"
BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
STREAM_BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'


def chat(content: str = "hi", model: str = "m") -> bytes:
    """A valid chat; `content` has nothing that JSON escapes."""
    return b'{"model":"%b","messages":[{"role":"user","content":"%b"}]}' % (model.encode(), content.encode())


def head(
    method: str, target: str, *lines: str, host: str | None = "gateway", version: str = "HTTP/1.1"
) -> bytes:
    all_lines = [f"{method} {target} {version}", *([f"Host: {host}"] if host is not None else []), *lines]
    return "\r\n".join(all_lines).encode("latin-1") + b"\r\n\r\n"


def get(target: str, *lines: str, **options: Any) -> bytes:
    return head("GET", target, *lines, **options)


def post(body: bytes = BODY, *lines: str, target: str = CHAT, **options: Any) -> bytes:
    """A whole JSON request."""
    size = f"Content-Length: {len(body)}"
    return head("POST", target, "Content-Type: application/json", size, *lines, **options) + body


def chunked_post(*pieces: bytes, target: str = CHAT, end: bytes = b"0\r\n\r\n") -> bytes:
    coded = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces)
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    return head("POST", target, *lines) + coded + end


class Response:
    def __init__(self, text: bytes) -> None:
        first, *lines = text[:-4].decode("latin-1").split("\r\n")
        self.version, status, *reason = first.split(" ", 2)
        self.status = int(status)
        self.reason = reason[0] if reason else ""
        self.headers = [
            (name.lower(), value.strip()) for name, _, value in (one.partition(":") for one in lines)
        ]
        self.body = b""
        self.pieces: list[bytes] = []
        """The payload of each chunk."""
        self.is_whole = False

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def get(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        """The code of the gateway's error."""
        return self.json()["error"]["code"]

    @property
    def closes(self) -> bool:
        return "close" in (self.get("connection") or "")


class RawClient(Endpoint):
    """One connection. `data` is what has come and was not taken by `read`."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.total = 0
        self.is_over = False
        self.error: Exception | None = None
        self._news = asyncio.Event()

    async def send(self, *pieces: bytes) -> None:
        """Each piece is written by itself, so that the gateway may read it by itself."""
        for piece in pieces:
            self.transport.write(piece)
            await turns()

    def end_sending(self) -> None:
        self.transport.write_eof()

    async def ask(self, request: bytes, method: str = "POST") -> Response:
        await self.send(request)
        return await self.read(method)

    async def read(self, method: str = "POST") -> Response:
        """The next whole answer (or interim answer). Fails when it breaks off."""
        response = await self.read_head()
        await self._read_body(response, method)
        return response

    async def read_head(self) -> Response:
        return Response(await self._until(b"\r\n\r\n"))

    async def read_piece(self) -> bytes:
        """The payload of the next chunk; empty for the last one."""
        size = int((await self._until(b"\r\n"))[:-2], 16)
        data = (await self._exactly(size + 2))[:-2]
        return data

    async def until_over(self) -> bytes:
        """Wait for the gateway to close; what came before that."""
        await self._wait(lambda: self.is_over, "the gateway closes")
        return bytes(self.data)

    async def until_received(self, text: bytes) -> None:
        await self._wait(lambda: text in self.data, f"{text!r} comes")

    async def _read_body(self, response: Response, method: str) -> None:
        if response.status < 200 or response.status in (204, 304) or method == "HEAD":
            response.is_whole = True
            return
        length = response.get("content-length")
        if response.get("transfer-encoding") == "chunked":
            assert length is None
            while piece := await self.read_piece():
                response.pieces.append(piece)
            response.body = b"".join(response.pieces)
        elif length is not None:
            response.body = await self._exactly(int(length))
        else:
            response.body = await self.until_over()
            assert self.error is None, "an answer that ends with the connection was reset"
            self.data.clear()
        response.is_whole = True

    async def _until(self, text: bytes) -> bytes:
        await self._wait(lambda: text in self.data, f"{text!r} comes")
        return self._take(self.data.index(text) + len(text))

    async def _exactly(self, size: int) -> bytes:
        await self._wait(lambda: len(self.data) >= size, f"{size} bytes come")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self.data[:size])
        del self.data[:size]
        return taken

    async def _wait(self, condition: Any, what: str) -> None:
        try:
            async with asyncio.timeout(BOUND_S):
                while not condition():
                    if self.is_over:
                        raise AssertionError(f"over before {what}: {bytes(self.data[:300])!r}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(
                f"not within {BOUND_S:g} s: {what}; got {bytes(self.data[:300])!r}"
            ) from None

    # ---- the transport's callbacks

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.total += len(data)
        self._news.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self.error = error
        self._news.set()


async def connect(
    port: int = 0,
    host: str = "127.0.0.1",
    *,
    path: str | None = None,
    tls: ssl.SSLContext | None = None,
    receive_buffer: int | None = None,
) -> RawClient:
    """`path`: of a Unix socket, instead of a port."""
    loop = asyncio.get_running_loop()
    if path is not None:
        _, client = await loop.create_unix_connection(RawClient, path)
        return client
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setblocking(False)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    try:
        await loop.sock_connect(sock, (host, port))
    except OSError:
        sock.close()
        raise
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    name = "localhost" if tls is not None else None
    _, client = await loop.create_connection(RawClient, sock=sock, ssl=tls, server_hostname=name)
    return client
