"""HTTP/1.1 requests from bytes, for the simulated engine: strict heads, bodies by length or in chunks.

Knows no sockets. Ambiguous messages are refused, as a careful engine would.
"""

from __future__ import annotations

import enum
import re

MAX_HEAD_BYTES = 65536
MAX_HEADERS = 256
MAX_CHUNK_LINE_BYTES = 1024

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")


class BadRequest(Exception):
    """The bytes cannot be served; answered with `status`, then the connection is closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Request:
    """One request with its whole body; header names are in lower case."""

    __slots__ = ("body", "headers", "is_http10", "keep_alive", "method", "path", "query")

    def __init__(self, method: str, target: str, headers: dict[bytes, bytes], is_http10: bool) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        self.is_http10 = is_http10
        self.body = b""
        words = headers.get(b"connection", b"").lower()
        self.keep_alive = b"keep-alive" in words if is_http10 else b"close" not in words


class _State(enum.Enum):
    HEAD = 0
    LENGTH = 1  # a body of known length
    CHUNK_LINE = 2
    CHUNK_DATA = 3  # with the line end behind it
    TRAILER = 4


class Parser:
    """Takes bytes as they come and hands out one request after the other."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._state = _State.HEAD
        self._scanned = 0
        self._left = 0
        self._body = bytearray()
        self._request: Request | None = None
        self._trailer_bytes = 0
        self._wants_continue = False

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take_continue(self) -> bool:
        """True once for a request that waits for `100 Continue` before it sends its body."""
        wants, self._wants_continue = self._wants_continue, False
        return wants and not self._buffer

    def next(self) -> Request | None:
        """The next complete request, or None until more bytes came. Raises `BadRequest`."""
        while True:
            if self._state is _State.HEAD:
                if not self._take_head():
                    return None
            elif self._state is _State.LENGTH:
                if len(self._buffer) < self._left:
                    return None
                body = bytes(self._buffer[: self._left])
                del self._buffer[: self._left]
                return self._complete(body)
            elif self._state is _State.TRAILER:
                line = self._line()
                if line is None:
                    return None
                if not line:
                    return self._complete(bytes(self._body))
                self._trailer_bytes += len(line)
                if self._trailer_bytes > MAX_HEAD_BYTES or not _FIELD.fullmatch(line):
                    raise BadRequest(400, "malformed trailer")
            elif not self._take_chunk_part():
                return None

    def _complete(self, body: bytes) -> Request:
        request = self._request
        assert request is not None
        request.body = body
        self._request = None
        self._body = bytearray()
        self._state = _State.HEAD
        self._scanned = 0
        self._wants_continue = False
        return request

    def _take_head(self) -> bool:
        buffer = self._buffer
        while buffer.startswith(b"\r\n"):  # RFC 9112, 2.2: empty lines before a request
            del buffer[:2]
            self._scanned = 0
        end = buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        if end < 0:
            self._scanned = len(buffer)
            if self._scanned > MAX_HEAD_BYTES:
                raise BadRequest(431, "request head too large")
            return False
        if end > MAX_HEAD_BYTES:
            raise BadRequest(431, "request head too large")
        lines = bytes(buffer[:end]).split(b"\r\n")
        del buffer[: end + 4]
        self._request = _head(lines)
        self._frame_body(self._request.headers)
        return True

    def _frame_body(self, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"content-length")
        coding = headers.get(b"transfer-encoding")
        if coding is not None:
            if length is not None:
                raise BadRequest(400, "both Content-Length and Transfer-Encoding")
            if coding.strip().lower() != b"chunked":
                raise BadRequest(501, "only the chunked transfer coding is known")
            self._state = _State.CHUNK_LINE
            self._trailer_bytes = 0
        else:
            if length is not None and not re.fullmatch(rb"[0-9]{1,18}", length):
                raise BadRequest(400, "malformed Content-Length")
            self._left = int(length) if length else 0
            if self._left > self._max_body_bytes:
                raise BadRequest(413, f"body larger than {self._max_body_bytes} bytes")
            self._state = _State.LENGTH
        self._wants_continue = headers.get(b"expect", b"").lower() == b"100-continue"

    def _take_chunk_part(self) -> bool:
        if self._state is _State.CHUNK_LINE:
            line = self._line()
            if line is None:
                return False
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise BadRequest(400, "malformed chunk size")
            self._left = int(size[1], 16)
            if len(self._body) + self._left > self._max_body_bytes:
                raise BadRequest(413, f"body larger than {self._max_body_bytes} bytes")
            self._state = _State.CHUNK_DATA if self._left else _State.TRAILER
            return True
        if len(self._buffer) < self._left + 2:
            return False
        if self._buffer[self._left : self._left + 2] != b"\r\n":
            raise BadRequest(400, "chunk longer than its size")
        self._body += self._buffer[: self._left]
        del self._buffer[: self._left + 2]
        self._state = _State.CHUNK_LINE
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", 0, MAX_CHUNK_LINE_BYTES)
        if end < 0:
            if len(self._buffer) >= MAX_CHUNK_LINE_BYTES:
                raise BadRequest(400, "line too long in a chunked body")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line


def _head(lines: list[bytes]) -> Request:
    first = _REQUEST_LINE.fullmatch(lines[0])
    if first is None:
        raise BadRequest(400, "malformed request line")
    if len(lines) > MAX_HEADERS:
        raise BadRequest(431, "too many headers")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BadRequest(400, "malformed header")
        name = field[1].lower()
        value = field[2].rstrip(b" \t")
        if name in headers:
            if name in (b"content-length", b"transfer-encoding", b"host"):
                raise BadRequest(400, f"repeated {name.decode()}")
            value = headers[name] + b", " + value
        headers[name] = value
    is_http10 = first[3] == b"0"
    if not is_http10 and b"host" not in headers:
        raise BadRequest(400, "missing Host")
    return Request(first[1].decode(), first[2].decode(), headers, is_http10)
