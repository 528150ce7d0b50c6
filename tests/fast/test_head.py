"""Heads of requests and responses: tables of what is taken and refused, and parity with the reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast.head import MAX_HEADERS, HeadError, RequestHead, read_request_head, read_response_head
from tests.fast.reference import heads

HOST = b"Host: a\r\n"


def request(lines: bytes = HOST, first: bytes = b"POST /x HTTP/1.1") -> bytes:
    return first + b"\r\n" + lines + b"\r\n"


def as_reference(head: RequestHead) -> heads.Request:
    return heads.Request(
        head.method,
        head.path,
        head.query,
        head.minor,
        head.content_length,
        head.chunked,
        head.keep_alive,
        head.expects_continue,
        head.upgrade,
        head.forward,
        head.items(),
    )


TAKEN = [
    request(),
    request(b"host:a\r\n"),
    request(b"HOST: \t a:80 \t\r\n"),
    request(b"Host:\r\n"),
    request(b"Host: [::1]:30000\r\n"),
    request(b"", b"GET / HTTP/1.0"),
    request(b"Connection: keep-alive\r\n", b"GET / HTTP/1.0"),
    request(b"Connection: Keep-Alive, close\r\n", b"GET / HTTP/1.0"),
    request(HOST + b"Connection: upgrade, Close\r\n"),
    request(HOST + b"Connection: x\r\nConnection: close\r\n"),
    request(HOST + b"Connection: closed, disclose\r\n"),
    request(HOST + b"Content-Length: 0\r\n"),
    request(HOST + b"Content-Length: 007\r\n"),
    request(HOST + b"Content-Length: 999999999999999999\r\n"),
    request(HOST + b"Transfer-Encoding: Chunked\r\n"),
    request(HOST + b"Expect: 100-Continue\r\nContent-Length: 1\r\n"),
    request(b"Expect: 100-continue\r\n", b"POST /x HTTP/1.0"),
    request(HOST + b"Upgrade: websocket\r\n"),
    request(HOST + b"Authorization: Bearer \xc3\xa4\r\nX-Other: no\r\ntraceparent:  00-1\r\n"),
    request(HOST + b"X-Request-ID: 1\r\nX-Request-Id-Two: 2\r\nx-request-id-: 3\r\n"),
    request(HOST + b"x-smg-routing-key: k\r\nAnthropic-Version: v\r\nanthropic-beta: b\r\ntracestate: s\r\n"),
    request(HOST + b"X-Correlation-Id: c\r\nX-Smg-Target-Worker: 0\r\n"),
    request(HOST + b"X-Empty:\r\nX-Blank:   \r\nX-Blanks: a  b\t c \r\n"),
    request(first=b"POST /x?a=b?c HTTP/1.1"),
    request(first=b"POST http://a HTTP/1.1"),
    request(first=b"POST http://a?b=/c HTTP/1.1"),
    request(first=b"POST /x? HTTP/1.1"),
    request(first=b"POST http://a/x?q HTTP/1.1"),
    request(first=b"POST HTTPS://a:1/ HTTP/1.1"),
    request(first=b"OPTIONS * HTTP/1.1"),
    request(first=b"M-SEARCH /x HTTP/1.1"),
    request(HOST + b"X: 1\r\n" * (MAX_HEADERS - 1)),
]

REFUSED = {
    400: [
        request(b""),
        request(HOST + HOST),
        request(b"Host: a b\r\n"),
        request(b"Host: user@a\r\n"),
        request(b"Host: a/b\r\n"),
        request(HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n"),
        request(HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n"),
        request(HOST + b"Content-Length: 58, 58\r\n"),
        request(HOST + b"Content-Length: +58\r\n"),
        request(HOST + b"Content-Length: -1\r\n"),
        request(HOST + b"Content-Length: 0x10\r\n"),
        request(HOST + b"Content-Length: 1 0\r\n"),
        request(HOST + b"Content-Length:\r\n"),
        request(HOST + b"Content-Length: 1000000000000000000\r\n"),
        request(HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        request(HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        request(HOST + b"Transfer-Encoding: xchunked\r\n"),
        request(HOST + b"Transfer-Encoding: gzip, chunked\r\n"),
        request(HOST + b"Transfer-Encoding: identity\r\n"),
        request(HOST + b"Transfer-Encoding:\r\n"),
        request(HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        request(HOST + b"Transfer-Encoding: \x0bchunked\r\n"),
        request(b"Transfer-Encoding: chunked\r\n", b"POST /x HTTP/1.0"),
        request(HOST + b"X-A : 1\r\n"),
        request(HOST + b"X A: 1\r\n"),
        request(HOST + b": 1\r\n"),
        request(HOST + b"X-A\r\n"),
        request(HOST + b"X-A: 1\r\n folded\r\n"),
        request(b" X-A: 1\r\n" + HOST),
        request(HOST + b"X-A: a\0b\r\n"),
        request(HOST + b"X-A: a\rTransfer-Encoding: chunked\r\n"),
        request(HOST + b"X-A: a\nTransfer-Encoding: chunked\r\n"),
        request(HOST + b"X-A: \x7f\r\n"),
        request(HOST + b"X-\xe4: 1\r\n"),
        request(first=b"POST /x"),
        request(first=b"POST  /x HTTP/1.1"),
        request(first=b"POST /x  HTTP/1.1"),
        request(first=b"POST /x HTTP/1.1 "),
        request(first=b" POST /x HTTP/1.1"),
        request(first=b"POST\t/x HTTP/1.1"),
        request(first=b"POST /x y HTTP/1.1"),
        request(first=b"POST /\xe4 HTTP/1.1"),
        request(first=b"POST /x http/1.1"),
        request(first=b"POST /x HTTP/1,1"),
        request(first=b"POST /x HTTP/1.10"),
        request(first=b"POST x HTTP/1.1"),
        request(first=b"POST http:// HTTP/1.1"),
        request(first=b"POST http:///x HTTP/1.1"),
        request(first=b"POST ftp://a/ HTTP/1.1"),
        request(first=b"CONNECT a:80 HTTP/1.1"),
        request(first=b"P" * 33 + b" /x HTTP/1.1"),
        request(first=b"P(ST /x HTTP/1.1"),
        b"\r\n\r\n",
    ],
    417: [request(HOST + b"Expect: more\r\n"), request(HOST + b"Expect:\r\n")],
    431: [request(HOST + b"X: 1\r\n" * MAX_HEADERS)],
    505: [
        request(first=b"POST /x HTTP/2.0"),
        request(first=b"POST /x HTTP/0.9"),
        request(first=b"POST /x HTTP/1.2"),
        request(first=b"PRI * HTTP/2.0"),
    ],
}


@pytest.mark.parametrize("data", TAKEN, ids=lambda data: repr(data[:70]))
def test_requests_that_are_taken(data: bytes) -> None:
    head = read_request_head(data)
    assert as_reference(head) == heads.read_request(data)
    assert head.raw == data
    for name, value in head.items():
        first = next(other for key, other in head.items() if key.lower() == name.lower())
        assert head.get(name.lower()) == first
        assert value == value.strip(b" \t")
    assert head.get(b"absent") is None


@pytest.mark.parametrize(
    ("status", "data"),
    [(status, data) for status, several in REFUSED.items() for data in several],
    ids=lambda one: repr(one[:70]) if isinstance(one, bytes) else str(one),
)
def test_requests_that_are_refused(status: int, data: bytes) -> None:
    with pytest.raises(HeadError) as caught:
        read_request_head(data)
    assert caught.value.status == status
    with pytest.raises(heads.Refused):
        heads.read_request(data)


def test_an_absolute_target_and_the_plain_one_are_the_same() -> None:
    head = read_request_head(request(first=b"POST http://other:8/v1/x?q HTTP/1.1"))
    assert (head.path, head.query) == (b"/v1/x", b"q")


ANSWERS = [
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200\r\n\r\n",
    b"HTTP/1.1 200 \r\n\r\n",
    b"HTTP/1.0 200 Fine\r\n\r\n",
    b"HTTP/1.7 200 Fine\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
    b"HTTP/1.1 404 Not \xe4 found\r\nContent-Length: 3\r\nServer:  x \r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: text/event-stream; charset=utf-8\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: TEXT/Event-Stream\r\nconnection: close\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n"
    b"X-Request-Id: 1\r\nx-smg-error-code: c\r\nX-Smg-Routed-Worker-Id: w\r\nSet-Cookie: a\r\n"
    b"Set-Cookie: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nX-Kept: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n"
    b"Connection: x-one\r\nX-One: 1\r\nX-Two: 2\r\nConnection: x-two\r\nX-Three: 3\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n"
    b"Keep-Alive: 5\r\nProxy-Connection: x\r\nTE: x\r\nTrailer: x\r\nUpgrade: x\r\nVia: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\nContent-Type: text/event-stream\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 999 Odd\r\n\r\n",
]
NO_ANSWERS = [
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 099 OK\r\n\r\n",
    b"HTTP/1.1  200 OK\r\n\r\n",
    b"HTTP/1.1 200 O\0K\r\n\r\n",
    b"HTTP/1.x 200 OK\r\n\r\n",
    b"ICY 200 OK or so\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX : 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
]


@pytest.mark.parametrize("data", ANSWERS, ids=lambda data: repr(data[:90]))
def test_answers_that_are_taken(data: bytes) -> None:
    head, wanted = read_response_head(data), heads.read_response(data)
    assert heads.Response(*(getattr(head, name) for name in heads.Response._fields)) == wanted


@pytest.mark.parametrize("data", NO_ANSWERS, ids=lambda data: repr(data[:90]))
def test_answers_that_are_refused(data: bytes) -> None:
    with pytest.raises(HeadError):
        read_response_head(data)
    with pytest.raises(heads.Refused):
        heads.read_response(data)


# ---- any bytes

names = st.sampled_from(
    [
        b"Host",
        b"Content-Length",
        b"Transfer-Encoding",
        b"Connection",
        b"X-A",
        b"authorization",
        b"Expect",
        b"Upgrade",
    ]
)
values = st.one_of(
    st.sampled_from(
        [b"a", b"5", b"chunked", b"close", b"keep-alive, x-a", b"100-continue", b"text/event-stream"]
    ),
    st.text("abc \t,;=\r\n\0\x7f\xe4", max_size=6).map(lambda text: text.encode("latin-1")),
)
colons = st.sampled_from([b": ", b":", b":  ", b" : ", b":\t", b""])
line_ends = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\r\n "])
field_lines = st.lists(st.tuples(names, colons, values, line_ends).map(b"".join), max_size=5).map(b"".join)
request_lines = st.sampled_from(
    [b"POST /x HTTP/1.1"] * 6
    + [b"GET /x?y HTTP/1.0", b"GET http://a/b HTTP/1.1", b"GET  / HTTP/1.1", b"GET / HTTP/1.3", b"GET /", b""]
)
status_lines = st.sampled_from([b"HTTP/1.1 200 OK"] * 6 + [b"HTTP/1.0 204", b"HTTP/1.1 20", b"HTTP/2 200 OK"])


@settings(max_examples=500, derandomize=True)
@given(request_lines, st.booleans(), field_lines)
def test_requests_are_read_as_the_reference_reads_them(first: bytes, has_host: bool, lines: bytes) -> None:
    data = first + b"\r\n" + (HOST if has_host else b"") + lines + b"\r\n"
    try:
        wanted = heads.read_request(data)
    except heads.Refused:
        with pytest.raises(HeadError):
            read_request_head(data)
    else:
        assert as_reference(read_request_head(data)) == wanted


@settings(max_examples=400, derandomize=True)
@given(status_lines, field_lines)
def test_answers_are_read_as_the_reference_reads_them(first: bytes, lines: bytes) -> None:
    data = first + b"\r\n" + lines + b"\r\n"
    try:
        wanted = heads.read_response(data)
    except heads.Refused:
        with pytest.raises(HeadError):
            read_response_head(data)
    else:
        head = read_response_head(data)
        assert heads.Response(*(getattr(head, name) for name in heads.Response._fields)) == wanted


@settings(max_examples=300, derandomize=True)
@given(st.sampled_from(TAKEN + REFUSED[400]), st.integers(0, 200), st.integers(0, 255))
def test_one_changed_byte(data: bytes, at: int, byte: int) -> None:
    changed = bytearray(data)
    changed[at % len(data)] = byte
    data = bytes(changed)
    try:
        wanted = heads.read_request(data)
    except heads.Refused:
        with pytest.raises(HeadError):
            read_request_head(data)
    else:
        assert as_reference(read_request_head(data)) == wanted
