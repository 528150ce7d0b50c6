"""multipart/form-data (RFC 7578) read as it arrives: strict, bounded, the same however the bytes are cut.

Values of header parameters are kept as written between their quotes, so that they can be sent on as
they came.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Protocol

MAX_PARTS = 64
MAX_HEADERS_BYTES = 8192
MAX_PREAMBLE_BYTES = 65_536

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rb';[ \t]*(%b)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))[ \t]*' % _TOKEN, re.S)
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_LINE_END = re.compile(rb"[ \t]{0,64}\r\n")
_MAY_BECOME_LINE_END = re.compile(rb"-?|[ \t]{0,64}\r?")


class FormError(ValueError):
    """The bytes are no form, or a larger one than is read."""


class Part:
    """The headers of a part, as written; `file_name_ext` is the `filename*` of RFC 5987."""

    __slots__ = ("content_type", "file_name", "file_name_ext", "name")

    def __init__(self, headers: bytes) -> None:
        self.name: bytes | None = None
        self.file_name: bytes | None = None
        self.file_name_ext: bytes | None = None
        self.content_type: bytes | None = None
        for line in headers.split(b"\r\n") if headers else ():
            name, colon, value = line.partition(b":")
            if not colon or not re.fullmatch(_TOKEN, name) or _CONTROL.search(value):
                raise FormError("malformed headers of a part")
            self._read(name.lower(), value.strip(b" \t"))

    def _read(self, name: bytes, value: bytes) -> None:
        if name == b"content-type":
            self.content_type = value
        elif name == b"content-disposition":
            kind, parameters = read_parameters(value)
            if kind != b"form-data":
                raise FormError("a part is no form-data")
            self.name = parameters.get(b"name")
            self.file_name = parameters.get(b"filename")
            self.file_name_ext = parameters.get(b"filename*")


class PartReader(Protocol):
    """What is told of the parts as they come."""

    def begin(self, part: Part) -> None: ...

    def data(self, piece: bytes) -> None: ...

    def end(self) -> None: ...


class _State(enum.Enum):
    PREAMBLE = 0
    DELIMITED = 1
    HEADERS = 2
    BODY = 3
    EPILOGUE = 4


class MultipartParser:
    """`feed` takes the bytes in any pieces, `close` must follow the last one. Both raise `FormError`."""

    def __init__(self, boundary: bytes, reader: PartReader) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._reader = reader
        # The first delimiter may lack the line end in front.
        self._rest = b"\r\n"
        self._skipped = 0
        self._parts = 0
        self._state = _State.PREAMBLE
        self._steps: dict[_State, Callable[[], bool]] = {
            _State.PREAMBLE: self._skip_preamble,
            _State.DELIMITED: self._after_delimiter,
            _State.HEADERS: self._take_headers,
            _State.BODY: self._take_body,
            _State.EPILOGUE: self._skip_epilogue,
        }

    def feed(self, data: bytes) -> None:
        self._rest = self._rest + data if self._rest else data
        while self._steps[self._state]():
            pass

    def close(self) -> None:
        if self._state is not _State.EPILOGUE:
            raise FormError("the form ends early")

    def _skip_preamble(self) -> bool:
        at = self._rest.find(self._delimiter)
        keep = at + len(self._delimiter) if at >= 0 else max(len(self._rest) - len(self._delimiter) + 1, 0)
        self._skipped += keep
        if self._skipped > MAX_PREAMBLE_BYTES:
            raise FormError("no boundary found")
        self._rest = self._rest[keep:]
        if at >= 0:
            self._state = _State.DELIMITED
        return at >= 0

    def _after_delimiter(self) -> bool:
        """Behind a delimiter stand two hyphens at the end of the form, else a line end."""
        rest = self._rest
        if rest.startswith(b"--"):
            self._state = _State.EPILOGUE
            return True
        if found := _LINE_END.match(rest):
            self._parts += 1
            if self._parts > MAX_PARTS:
                raise FormError(f"more than {MAX_PARTS} parts")
            # The line end stays: with it, headers that are none end like others.
            self._rest = rest[found.end() - 2 :]
            self._state = _State.HEADERS
            return True
        if not _MAY_BECOME_LINE_END.fullmatch(rest):
            raise FormError("malformed boundary line")
        return False

    def _take_headers(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        # Not found: it cannot begin before the last three bytes.
        if (end if end >= 0 else len(self._rest) - 3) > MAX_HEADERS_BYTES:
            raise FormError("the headers of a part are too long")
        if end < 0:
            return False
        self._reader.begin(Part(self._rest[2:end]))
        self._rest = self._rest[end + 4 :]
        self._state = _State.BODY
        return True

    def _take_body(self) -> bool:
        rest = self._rest
        at = rest.find(self._delimiter)
        size = at if at >= 0 else rest.rfind(b"\r", max(len(rest) - len(self._delimiter) + 1, 0))
        if size < 0:
            size = len(rest)
        if size:
            self._reader.data(rest[:size] if size < len(rest) else rest)
        if at < 0:
            self._rest = rest[size:]
            return False
        self._reader.end()
        self._rest = rest[at + len(self._delimiter) :]
        self._state = _State.DELIMITED
        return True

    def _skip_epilogue(self) -> bool:
        self._rest = b""
        return False


def read_parameters(value: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """The first word of a header value in lower case, and its parameters. Raises `FormError`."""
    semicolon = value.find(b";")
    if semicolon < 0:
        return value.strip().lower(), {}
    parameters: dict[bytes, bytes] = {}
    at = semicolon
    while at < len(value):
        found = _PARAMETER.match(value, at)
        if found is None:
            if value[at:].strip(b"; \t"):
                raise FormError("malformed parameters of a header")
            break
        name = found[1].lower()
        if name in parameters:
            raise FormError("a parameter of a header is given twice")
        parameters[name] = found[2] if found[2] is not None else found[3]
        at = found.end()
    return value[:semicolon].strip().lower(), parameters


def boundary_of(content_type: bytes | None) -> bytes | None:
    """The boundary of a form's `Content-Type`; None when it is no form, or has none that is valid."""
    try:
        kind, parameters = read_parameters(content_type or b"")
    except FormError:
        return None
    boundary = parameters.get(b"boundary")
    if kind != b"multipart/form-data" or boundary is None or not _BOUNDARY.fullmatch(boundary):
        return None
    return boundary
