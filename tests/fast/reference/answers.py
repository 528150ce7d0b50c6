"""What a strict client reads from the bytes of a connection."""

from __future__ import annotations

from typing import NamedTuple

from tests.fast.reference import chunked
from tests.fast.reference.heads import Refused


class Answer(NamedTuple):
    """`body`: without its framing, as far as it came; `is_whole`: the end was seen."""

    status: int
    fields: list[tuple[str, str]]
    body: bytes
    is_whole: bool

    def get(self, name: str) -> str | None:
        found = [value for key, value in self.fields if key == name]
        assert len(found) <= 1, f"{name} is there twice"
        return found[0] if found else None

    @property
    def closes(self) -> bool:
        return self.get("connection") == "close"


def read_all(data: bytes, *, closed: bool = False) -> list[Answer]:
    """Every answer in `data`, which must end with one; `closed`: the connection ended behind it."""
    answers = []
    while data:
        answer, data = read_one(data, closed=closed)
        answers.append(answer)
    return answers


def read_one(data: bytes, *, closed: bool = False) -> tuple[Answer, bytes]:
    """The first answer in `data`, and what follows it. Raises ValueError when it is malformed."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        raise Refused(f"no whole head: {data[:80]!r}")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    empty = Answer(int(status), fields, b"", True)
    length, coding = empty.get("content-length"), empty.get("transfer-encoding")
    if empty.status < 200 or empty.status in (204, 304):
        assert length is None and coding is None
        return empty, rest
    if coding is not None:
        assert coding == "chunked" and length is None
        got = chunked.decode(rest)
        return empty._replace(body=got.payload, is_whole=got.is_whole), got.rest if got.is_whole else b""
    if length is not None:
        size = int(length)
        return empty._replace(body=rest[:size], is_whole=len(rest) >= size), rest[size:]
    assert empty.closes, "an answer without framing ends with the connection"
    return empty._replace(body=rest, is_whole=closed), b""


def stands_between_chunks(data: bytes) -> bool:
    """Could the next bytes of this chunked answer begin a chunk, or has it ended?"""
    _, _, rest = data.partition(b"\r\n\r\n")
    return not chunked.decode(rest).rest
