"""The chunked coding of RFC 9112 section 7.1, read from the whole text at once."""

from __future__ import annotations

import re
from typing import NamedTuple

SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[;\t ][^\r\n\0]*)?")
SIZE_BEGUN = re.compile(rb"[0-9A-Fa-f]{0,16}|[0-9A-Fa-f]{1,16}[;\t ][^\r\n\0]*")
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
TRAILER_LINE = re.compile(TOKEN + rb":[^\r\n\0]*")
TRAILER_BEGUN = re.compile(TOKEN + rb"(?::[^\r\n\0]*)?")
LARGEST = 2**63 - 1


class Decoded(NamedTuple):
    """`payload` may end inside a chunk; `is_whole`: the last chunk and the trailers are there; `rest`: what
    stands behind the end, or behind the last whole chunk."""

    payload: bytes
    is_whole: bool
    rest: bytes


class _Incomplete(Exception):
    pass


def decode(data: bytes) -> Decoded:
    """Raises ValueError as soon as no continuation could make it the chunked coding."""
    payload, at = b"", 0
    try:
        while True:
            line, begin = _line(data, at, SIZE_LINE, SIZE_BEGUN)
            size = _size(line)
            if size == 0:
                return Decoded(payload, True, data[_after_trailers(data, begin) :])
            chunk = data[begin : begin + size]
            end = data[begin + size : begin + size + 2]
            if not b"\r\n".startswith(end):
                raise ValueError("no line end behind a chunk")
            if len(end) < 2:
                return Decoded(payload + chunk, False, data[at:])
            payload += chunk
            at = begin + size + 2
    except _Incomplete:
        return Decoded(payload, False, data[at:])


def _size(line: bytes) -> int:
    found = SIZE_LINE.fullmatch(line)
    assert found is not None
    size = int(found[1], 16)
    if size > LARGEST:
        raise ValueError("a chunk size out of range")
    return size


def _after_trailers(data: bytes, at: int) -> int:
    while True:
        begun = data[at : at + 2]
        if begun == b"\r\n":
            return at + 2
        if begun == b"\r" or not begun:
            raise _Incomplete
        _, at = _line(data, at, TRAILER_LINE, TRAILER_BEGUN)


def _line(data: bytes, at: int, whole: re.Pattern[bytes], begun: re.Pattern[bytes]) -> tuple[bytes, int]:
    """The line at `at` without its CR LF, and where the next one begins."""
    stop = data.find(b"\r", at)
    line = data[at:] if stop < 0 else data[at:stop]
    end = b"" if stop < 0 else data[stop : stop + 2]
    if not (whole if end else begun).fullmatch(line) or not b"\r\n".startswith(end):
        raise ValueError(f"a malformed line: {line!r}")
    digits = re.match(rb"[0-9A-Fa-f]*", line)
    if whole is SIZE_LINE and digits and digits[0] and int(digits[0], 16) > LARGEST:
        raise ValueError("a chunk size out of range")
    if len(end) < 2:
        raise _Incomplete
    return line, stop + 2


def encode(*pieces: bytes, end: bool = True) -> bytes:
    coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return coded + (b"0\r\n\r\n" if end else b"")
