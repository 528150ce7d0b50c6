"""Requests that could be read in two ways, or that are none, are refused and never reach a worker (FF-11).

Each case runs on a route of the data plane and on routes that aiohttp answers: one parser reads the
framing of all of them.
"""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.raw_client import BODY, CHAT, chunked_post, head, post
from tests.wire.scripted_worker import ScriptedWorker

JSON = "Content-Type: application/json"
SIZE = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
HIDDEN = post(target="/generate")
"""What must never be taken as a request: it follows every bad one."""

ROUTES = [CHAT, "/v1/models", "/workers", "/health"]


def raw(first: bytes, *lines: bytes, end: bytes = b"\r\n") -> bytes:
    return b"\r\n".join([first, *lines, b""]) + end


def bad_heads(path: str) -> dict[str, tuple[int, bytes]]:
    """Status and request; the body is what the most obliging reader would take for it."""
    start, host = b"POST %b HTTP/1.1" % path.encode(), b"Host: g"

    def with_lines(*lines: bytes) -> bytes:
        return raw(start, host, *lines) + BODY

    size = SIZE.encode()
    return {
        "two lengths": (400, with_lines(size, b"Content-Length: 3")),
        "two equal lengths": (400, with_lines(size, size)),
        "a list of lengths": (400, with_lines(b"Content-Length: 58, 58")),
        "a signed length": (400, with_lines(b"Content-Length: +58")),
        "a negative length": (400, with_lines(b"Content-Length: -1")),
        "a length in hexadecimal": (400, with_lines(b"Content-Length: 0x3a")),
        "a length with a fraction": (400, with_lines(b"Content-Length: 58.0")),
        "a length with a blank": (400, with_lines(b"Content-Length: 5 8")),
        "an empty length": (400, with_lines(b"Content-Length:")),
        "a length that overflows": (400, with_lines(b"Content-Length: 18446744073709551674")),
        "a length of many digits": (400, with_lines(b"Content-Length: " + b"0" * 40 + b"58")),
        "length and chunked": (400, with_lines(size, b"Transfer-Encoding: chunked")),
        "chunked and length": (400, with_lines(b"Transfer-Encoding: chunked", size)),
        "unknown coding": (400, with_lines(b"Transfer-Encoding: xchunked")),
        "gzip and chunked": (400, with_lines(b"Transfer-Encoding: gzip, chunked")),
        "chunked twice in a line": (400, with_lines(b"Transfer-Encoding: chunked, chunked")),
        "chunked twice": (400, with_lines(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")),
        "identity and chunked": (
            400,
            with_lines(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"),
        ),
        "identity": (400, with_lines(b"Transfer-Encoding: identity", size)),
        "an empty coding": (400, with_lines(b"Transfer-Encoding:", size)),
        "a quoted coding": (400, with_lines(b'Transfer-Encoding: "chunked"')),
        "coding with a parameter": (400, with_lines(b"Transfer-Encoding: chunked;a=b")),
        "coding after a tab and VT": (400, with_lines(b"Transfer-Encoding:\t\x0bchunked")),
        "chunked in HTTP/1.0": (
            400,
            raw(b"POST %b HTTP/1.0" % path.encode(), host, b"Transfer-Encoding: chunked"),
        ),
        "blank before the colon": (400, with_lines(b"Content-Length : 58", size)),
        "tab before the colon": (400, with_lines(b"X-A\t: 1", size)),
        "folded line": (400, with_lines(b"X-A: 1", b" continued", size)),
        "folded by a tab": (400, with_lines(b"X-A: 1", b"\tTransfer-Encoding: chunked", size)),
        "folded first line": (400, raw(start, b" X: 1", host, size) + BODY),
        "no colon": (400, with_lines(b"X-A", size)),
        "empty name": (400, with_lines(b": 1", size)),
        "NUL in a value": (400, with_lines(b"X-A: a\x00b", size)),
        "NUL in a name": (400, with_lines(b"X\x00A: a", size)),
        "control in a value": (400, with_lines(b"X-A: a\x1fb", size)),
        "DEL in a value": (400, with_lines(b"X-A: a\x7fb", size)),
        "bytes above 127 in a name": (400, with_lines(b"X-\xe9: a", size)),
        "bare CR in a value": (400, with_lines(b"X-A: a\rTransfer-Encoding: chunked", size)),
        "bare CR before CR LF": (400, with_lines(b"X-A: a\r", size)),
        "bare LF in a value": (400, with_lines(b"X-A: a\nTransfer-Encoding: chunked", size)),
        "bare LF after the first line": (400, start + b"\nHost: g\r\n" + size + b"\r\n\r\n" + BODY),
        "only LF": (400, start + b"\nHost: g\n" + size + b"\n\n" + BODY),
        "LF for the empty line": (400, start + b"\r\nHost: g\r\n" + size + b"\r\n\n" + BODY),
        "CR for the empty line": (400, start + b"\r\nHost: g\r\n" + size + b"\r\n\r" + BODY),
        "no Host": (400, raw(start, size) + BODY),
        "two Hosts": (400, with_lines(b"Host: h", size)),
        "two equal Hosts": (400, with_lines(host, size)),
        "Host with a blank": (400, raw(start, b"Host: a b", size) + BODY),
        "Host with a path": (400, raw(start, b"Host: a/b", size) + BODY),
        "Host with a user": (400, raw(start, b"Host: u@a", size) + BODY),
        "Host above ASCII": (400, raw(start, b"Host: \xc3\xa9", size) + BODY),
        "unknown expectation": (417, with_lines(b"Expect: 200-ok", size)),
        "HTTP/2.0": (505, raw(b"POST %b HTTP/2.0" % path.encode(), host, size) + BODY),
        "HTTP/1.2": (505, raw(b"POST %b HTTP/1.2" % path.encode(), host, size) + BODY),
        "HTTP/0.9": (400, b"GET %b\r\n\r\n" % path.encode()),
        "HTTP/0.9 with POST": (400, b"POST %b\r\nHost: g\r\n\r\n" % path.encode()),
        "small letters": (400, raw(b"POST %b http/1.1" % path.encode(), host, size) + BODY),
        "long version": (400, raw(b"POST %b HTTP/1.10" % path.encode(), host, size) + BODY),
        "short version": (400, raw(b"POST %b HTTP/1" % path.encode(), host, size) + BODY),
        "no target": (400, raw(b"POST HTTP/1.1", host, size) + BODY),
        "two blanks": (400, raw(b"POST  %b HTTP/1.1" % path.encode(), host, size) + BODY),
        "two blanks before the version": (400, raw(b"POST %b  HTTP/1.1" % path.encode(), host, size) + BODY),
        "tab in the first line": (400, raw(b"POST\t%b\tHTTP/1.1" % path.encode(), host, size) + BODY),
        "blank after the version": (400, raw(start + b" ", host, size) + BODY),
        "blank in the target": (400, raw(b"POST %b x HTTP/1.1" % path.encode(), host, size) + BODY),
        "NUL in the target": (400, raw(b"POST %b\x00 HTTP/1.1" % path.encode(), host, size) + BODY),
        "bytes above 127 in the target": (
            400,
            raw(b"POST %b\xe9 HTTP/1.1" % path.encode(), host, size) + BODY,
        ),
        "relative target": (400, raw(b"POST v1 HTTP/1.1", host, size) + BODY),
        "other scheme": (400, raw(b"POST ftp://g%b HTTP/1.1" % path.encode(), host, size) + BODY),
        "blank first": (400, b" " + with_lines(size)),
        "bytes of TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        "bad method": (400, raw(b"PO(ST %b HTTP/1.1" % path.encode(), host, size) + BODY),
        "101 header lines": (431, with_lines(*(b"X-%d: 1" % i for i in range(99)), size)),
        "a head above 64 KiB": (431, with_lines(b"X-A: " + b"a" * 65536, size)),
        "many lines above 64 KiB": (431, with_lines(*(b"X-%d: " % i + b"a" * 1000 for i in range(90)), size)),
        "a target above 64 KiB": (
            414,
            raw(b"POST %b?%b HTTP/1.1" % (path.encode(), b"a" * 66000), host, size) + BODY,
        ),
        "connect to a port": (400, raw(b"CONNECT g:443 HTTP/1.1", b"Host: g:443")),
        "connect to a path": (501, raw(b"CONNECT %b HTTP/1.1" % path.encode(), host)),
    }


BAD_CHUNKS = {
    "letters": b"ZZ\r\n",
    "ended by LF": b"3\nabc\r\n0\r\n\r\n",
    "ended by CR": b"3\rabc\r\n0\r\n\r\n",
    "17 digits": b"00000000000000003\r\nabc\r\n0\r\n\r\n",
    "overflow": b"fffffffffffffffff\r\nabc",
    "sign bit": b"8000000000000000\r\nabc",
    "negative": b"-3\r\nabc\r\n0\r\n\r\n",
    "plus": b"+3\r\nabc\r\n0\r\n\r\n",
    "prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
    "blank first": b" 3\r\nabc\r\n0\r\n\r\n",
    "empty size": b"\r\nabc\r\n0\r\n\r\n",
    "only an extension": b";a=b\r\nabc\r\n0\r\n\r\n",
    "LF in an extension": b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "bare CR in an extension": b"3;a\rb\r\nabc\r\n0\r\n\r\n",
    "NUL in an extension": b"3;a\x00b\r\nabc\r\n0\r\n\r\n",
    "extension without end": b"3;" + b"a" * 20_000,
    "data too long": b"3\r\nabcd\r\n0\r\n\r\n",
    "data too short": b"3\r\nab\r\n0\r\n\r\n",
    "LF after data": b"3\r\nabc\n0\r\n\r\n",
    "folded trailer": b"3\r\nabc\r\n0\r\nA: 1\r\n b\r\n\r\n",
    "trailer without a colon": b"3\r\nabc\r\n0\r\nabc\r\n\r\n",
    "trailer with a blank name": b"3\r\nabc\r\n0\r\n: b\r\n\r\n",
    "trailer ended by LF": b"3\r\nabc\r\n0\r\nA: 1\n\r\n",
    "bare CR in a trailer": b"3\r\nabc\r\n0\r\nA: 1\rb\r\n\r\n",
    "NUL in a trailer": b"3\r\nabc\r\n0\r\nA: \x00\r\n\r\n",
    "endless trailers": b"3\r\nabc\r\n0\r\n" + b"A: 1234567\r\n" * 4000,
    "LF as the end": b"3\r\nabc\r\n0\r\n\n",
}


async def refuses(gw, worker, request, statuses) -> None:
    """The first answer is the refusal, nothing follows it, and no worker was asked."""
    refused = gw.counts.refused
    client = await gw.client()
    await client.send(request + HIDDEN)
    response = await client.read()
    assert response.status in statuses
    assert response.closes
    assert response.get("x-request-id")
    client.end_sending()
    assert await client.until_over() == b""
    assert gw.counts.refused == refused + 1
    assert worker.requests == []


@pytest.mark.parametrize("path", ROUTES)
async def test_malformed_heads_are_refused(gateway, path):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    problems = {}
    for name, (status, request) in bad_heads(path).items():
        try:
            await refuses(gw, worker, request, {status})
        except AssertionError as error:
            problems[name] = str(error)
            worker.requests.clear()
    assert not problems, "\n".join(f"{name}: {text[:200]}" for name, text in problems.items())


@pytest.mark.parametrize("path", [CHAT, "/generate"])
async def test_malformed_chunks_are_refused(gateway, path):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    problems = {}
    for name, coded in BAD_CHUNKS.items():
        try:
            await refuses(gw, worker, head("POST", path, JSON, CHUNKED) + coded, {400})
        except AssertionError as error:
            problems[name] = str(error)
            worker.requests.clear()
    assert not problems, "\n".join(f"{name}: {text[:200]}" for name, text in problems.items())


@pytest.mark.parametrize("path", ["/workers", "/health", "/nowhere"])
async def test_malformed_chunks_for_aiohttp_end_the_connection(gateway, path):
    """There the route may have answered before the bad chunk came."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    problems = {}
    for name, coded in BAD_CHUNKS.items():
        client = await gw.client()
        await client.send(head("POST", path, JSON, CHUNKED) + coded + HIDDEN)
        try:
            response = await client.read()
            assert response.status == (400 if path == "/workers" else response.status)
            assert response.status in (400, 404, 405)
            client.end_sending()
            assert await client.until_over() == b""
            assert worker.requests == []
        except AssertionError as error:
            problems[name] = str(error)
            worker.requests.clear()
    assert not problems, "\n".join(f"{name}: {text[:200]}" for name, text in problems.items())


@pytest.mark.parametrize(
    "bad", ["two lengths", "length and chunked", "bare LF in a value", "a head above 64 KiB"]
)
async def test_refused_after_good_requests(gateway, bad):
    """A connection that has worked is no more trusted than a new one."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    status, request = bad_heads(CHAT)[bad]
    client = await gw.client()
    await client.send(post() + head("GET", "/health") + request + HIDDEN)
    assert [(await client.read()).status for _ in range(3)] == [200, 200, status]
    client.end_sending()
    assert await client.until_over() == b""
    assert len(worker.requests) == 1


async def test_bad_heads_are_refused_byte_by_byte(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for name, (status, request) in bad_heads(CHAT).items():
        if len(request) > 1000:
            continue
        client = await gw.client()
        for byte in request + HIDDEN:
            if client.total or client.is_over:
                break
            await client.send(bytes([byte]))
        assert (await client.read()).status == status, name
        client.close()
    assert worker.requests == []


async def test_the_preface_of_http2_closes_without_an_answer(gateway):
    gw = await gateway(ScriptedWorker())
    client = await gw.client()
    await client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 9)
    assert await client.until_over() == b""


LEGAL_CHUNKS = {
    "extension": b"%x;a=b\r\n%b\r\n0\r\n\r\n",
    "quoted extension": b'%x;a="b;c"\r\n%b\r\n0\r\n\r\n',
    "blank before the extension": b"%x ;a\r\n%b\r\n0\r\n\r\n",
    "leading zeros": b"000%x\r\n%b\r\n0000\r\n\r\n",
    "upper case": b"%X\r\n%b\r\n0\r\n\r\n",
    "trailers": b"%x\r\n%b\r\n0\r\nX-A: 1\r\nContent-Length: 3\r\n\r\n",
    "extension of the last chunk": b"%x\r\n%b\r\n0;a\r\n\r\n",
}


@pytest.mark.parametrize("coded", LEGAL_CHUNKS.values(), ids=LEGAL_CHUNKS)
async def test_legal_chunks_pass_with_a_length_of_their_own(gateway, coded):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(head("POST", CHAT, JSON, CHUNKED) + coded % (len(BODY), BODY) + post())
    assert [(await client.read()).status for _ in range(2)] == [200, 200]
    assert [one.body for one in worker.requests] == [BODY, BODY]
    assert worker.requests[0].get("x-a") is None


async def test_any_cut_of_a_chunked_body_gives_the_same_body(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    request = chunked_post(BODY[:7], BODY[7:], end=b"0\r\nX-A: 1\r\n\r\n")
    for cut in range(1, len(request)):
        await client.send(request[:cut])
        assert (await client.ask(request[cut:])).status == 200
    assert {one.body for one in worker.requests} == {BODY}
    await until(lambda: len(worker.requests) == len(request) - 1)
