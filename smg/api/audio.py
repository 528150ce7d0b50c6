"""The form of `/v1/audio/transcriptions`: read as it arrives, the file kept on disk, and written anew."""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator

from smg import errors
from smg.api.call import Call
from smg.api.multipart import FormError, MultipartParser, Part, boundary_of
from smg.api.surfaces import Surface

MAX_IN_MEMORY_BYTES = 1 << 20
MAX_FIELD_BYTES = 1 << 20

_PIECE_BYTES = 1 << 16
_NO_NAME = b"audio"
_GRANULARITIES = b"timestamp_granularities"
# In the order in which they are sent; a value that was not given is left out.
_FIELDS = (b"model", b"language", b"prompt", b"response_format", b"temperature", _GRANULARITIES, b"stream")
_MANY = (_GRANULARITIES, _GRANULARITIES + b"[]")
_FLOAT = re.compile(rb"[+-]?(?:inf|infinity|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.I)
_FLAGS = {b"true": True, b"True": True, b"TRUE": True, b"1": True}
_FLAGS |= {b"false": False, b"False": False, b"FALSE": False, b"0": False}


class Form:
    """What the worker is sent: `length` bytes of the type `content_type`. Each iteration begins anew, and
    only one may run at a time. `close` gives up the file."""

    __slots__ = ("_file", "_head", "_tail", "content_type", "length")

    def __init__(
        self, file: tempfile.SpooledTemporaryFile[bytes], part: Part, fields: list[tuple[bytes, bytes]]
    ) -> None:
        boundary = b"smg-" + secrets.token_hex(16).encode()
        self.content_type = b"multipart/form-data; boundary=" + boundary
        self._file = file
        self._head = b"--%b\r\n%b\r\n" % (boundary, _file_headers(part))
        written = [
            b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (boundary, *field)
            for field in fields
        ]
        self._tail = b"\r\n%b--%b--\r\n" % (b"".join(written), boundary)
        self.length = len(self._head) + file.seek(0, 2) + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        self._file.seek(0)
        while piece := self._file.read(_PIECE_BYTES):
            yield piece
        yield self._tail

    def close(self) -> None:
        _close(self._file)


def _file_headers(part: Part) -> bytes:
    names = b""
    if part.file_name or part.file_name_ext is None:
        names = b'; filename="%b"' % (part.file_name or _NO_NAME)
    if part.file_name_ext is not None:
        names += b"; filename*=%b" % part.file_name_ext
    kind = b"Content-Type: %b\r\n" % part.content_type if part.content_type is not None else b""
    return b'Content-Disposition: form-data; name="file"%b\r\n%b' % (names, kind)


class Transcription(Call):
    """`form` replaces the body; whoever has the call closes it."""

    __slots__ = ("form",)

    def __init__(self, surface: Surface, model: str, stream: bool, form: Form) -> None:
        super().__init__(surface, model, stream, None)
        self.form = form


class FormReader:
    """Takes the request's body by `feed`, then gives its call by `finish`. A `ValueError` of `feed` ends
    the receipt; `failure` is what is to be answered then. Unless a call was given, `close` must follow.

    Writing to the file blocks the loop, but a piece is at most what one read of the socket gave (256 kB)
    and goes to the page cache: some 50 µs, less than handing it to another thread and waiting for that.
    """

    def __init__(self, content_type: bytes | None) -> None:
        boundary = boundary_of(content_type)
        if boundary is None:
            raise errors.malformed_form("Invalid `boundary` for `multipart/form-data` request")
        self.failure: errors.GatewayError | None = None
        self._parser = MultipartParser(boundary, self)
        self._file = tempfile.SpooledTemporaryFile[bytes](MAX_IN_MEMORY_BYTES)
        self._file_part: Part | None = None
        self._fields: dict[bytes, list[bytes]] = {}
        self._field: bytes | None = None
        self._value = bytearray()
        self._in_file = False

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except FormError as error:
            self.failure = self.failure or _unreadable(error)
            raise
        except OSError as error:
            self.failure = errors.upload_not_stored()
            raise FormError("the file cannot be stored") from error

    def finish(self, surface: Surface, resolve: Callable[[str], str]) -> Transcription:
        """The checked call; `resolve` gives a model's canonical name. Raises 400 and 500."""
        try:
            self._parser.close()
        except FormError as error:
            raise _unreadable(error) from None
        model = self._fields.get(b"model", [b""])[-1].decode("utf-8", "replace").strip()
        if not model:
            raise errors.malformed_form("Missing required 'model' field")
        if self._file_part is None:
            raise errors.malformed_form("Missing required 'file' part")
        if not self._file.tell():
            raise errors.malformed_form("Uploaded 'file' part is empty")
        model = resolve(model)
        stream = _FLAGS[self._fields.get(b"stream", [b"0"])[-1]]
        try:
            form = Form(self._file, self._file_part, self._written(model))
        except OSError:
            raise errors.upload_not_stored() from None
        return Transcription(surface, model, stream, form)

    def close(self) -> None:
        _close(self._file)

    def _written(self, model: str) -> list[tuple[bytes, bytes]]:
        """The fields to send, in order; texts as they came."""
        given = {**self._fields, b"model": [model.encode()]}
        if b"stream" in given:
            given[b"stream"] = [b"true" if _FLAGS[given[b"stream"][-1]] else b"false"]
        fields: list[tuple[bytes, bytes]] = []
        for name in _FIELDS:
            if name == _GRANULARITIES:
                fields += [(name + b"[]", value) for value in given.get(name, ())]
            elif name in given:
                fields.append((name, given[name][-1]))
        return fields

    # ---- what the parser tells

    def begin(self, part: Part) -> None:
        name = part.name
        self._in_file = name == b"file"
        self._field = None
        self._value.clear()
        if self._in_file:
            self._file_part = part
            self._file.seek(0)
            self._file.truncate()
        elif name in _MANY:
            self._field = _GRANULARITIES
        elif name in _FIELDS:
            self._field = name

    def data(self, piece: bytes) -> None:
        if self._in_file:
            self._file.write(piece)
        elif self._field is not None:
            if len(self._value) + len(piece) > MAX_FIELD_BYTES:
                raise FormError(f"field '{self._field.decode()}' is longer than {MAX_FIELD_BYTES} bytes")
            self._value += piece

    def end(self) -> None:
        if self._field is not None:
            value = bytes(self._value)
            if self._field == b"temperature":
                value = value.strip()
            self.failure = _wrong_value(self._field, value)
            if self.failure is not None:
                raise FormError("a wrong value")
            self._fields.setdefault(self._field, []).append(value)


def _close(file: tempfile.SpooledTemporaryFile[bytes]) -> None:
    """What was not written yet is of no interest, nor is it that it cannot be."""
    with contextlib.suppress(OSError):
        file.close()


def _unreadable(error: FormError) -> errors.GatewayError:
    return errors.malformed_form(f"Failed to read the form: {error}")


def _wrong_value(field: bytes, value: bytes) -> errors.GatewayError | None:
    if field == b"stream" and value not in _FLAGS:
        shown = value[:100].decode("utf-8", "replace")
        return errors.malformed_form(f"Invalid 'stream' value: '{shown}' (expected true/false/1/0)")
    if field == b"temperature" and (problem := _wrong_temperature(value)):
        return errors.malformed_form(f"Invalid 'temperature' value: {problem}")
    return None


def _wrong_temperature(value: bytes) -> str | None:
    if not value:
        return "cannot parse float from empty string"
    if not _FLOAT.fullmatch(value):
        return "invalid float literal"
    number = float(value)
    if math.isfinite(number) and 0 <= number <= 1:
        return None
    return f"{str(number).removesuffix('.0')} (must be a finite number in [0.0, 1.0])"
