"""The request parser of the simulated engine."""

from __future__ import annotations

import pytest

from smg.sim.http import MAX_HEAD_BYTES, BadRequest, Parser, Request

PLAIN = b"POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: t\r\n\r\n"
)
EMPTY = b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"
STREAM = PLAIN + CHUNKED + EMPTY + PLAIN


def take_all(parser: Parser) -> list[Request]:
    found = []
    while (request := parser.next()) is not None:
        found.append(request)
    return found


def check(found: list[Request]) -> None:
    assert [(r.method, r.path, r.query, r.body) for r in found] == [
        ("POST", "/v1/x", "a=1", b"hello"),
        ("POST", "/c", "", b"hello"),
        ("GET", "/", "", b""),
        ("POST", "/v1/x", "a=1", b"hello"),
    ]


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_every_split(at: int) -> None:
    parser = Parser(100)
    parser.feed(STREAM[:at])
    found = take_all(parser)
    parser.feed(STREAM[at:])
    check(found + take_all(parser))


def test_byte_by_byte() -> None:
    parser = Parser(100)
    found: list[Request] = []
    for byte in STREAM:
        parser.feed(bytes([byte]))
        found += take_all(parser)
    check(found)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\nc: d\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * MAX_HEAD_BYTES, 431),
        (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
    ],
)
def test_refuses(data: bytes, status: int) -> None:
    parser = Parser(100)
    parser.feed(data)
    with pytest.raises(BadRequest) as refused:
        parser.next()
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("first", "header", "keeps"),
    [
        (b"HTTP/1.1", b"", True),
        (b"HTTP/1.1", b"Connection: close\r\n", False),
        (b"HTTP/1.0", b"", False),
        (b"HTTP/1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_keep_alive(first: bytes, header: bytes, keeps: bool) -> None:
    parser = Parser(100)
    parser.feed(b"GET / " + first + b"\r\nHost: h\r\n" + header + b"\r\n")
    request = parser.next()
    assert request is not None
    assert request.keep_alive is keeps


def test_continue_is_asked_for_once_and_only_without_the_body() -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    parser = Parser(100)
    parser.feed(head)
    assert parser.next() is None
    assert parser.take_continue()
    assert not parser.take_continue()
    parser.feed(b"ab" + head + b"a")
    assert parser.next() is not None
    assert parser.next() is None
    assert not parser.take_continue()
