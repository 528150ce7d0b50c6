"""What is odd but legal is answered, on both paths: targets, methods, blank lines, sizes, upgrades."""

from __future__ import annotations

import pytest

from tests.wire.raw_client import BODY, CHAT, STREAM_BODY, chunked_post, get, head, post
from tests.wire.scripted_worker import ScriptedWorker

JSON = "Content-Type: application/json"
SIZE = f"Content-Length: {len(BODY)}"
KEPT = post(BODY)
"""Follows the odd request, to see that the connection is still in step."""

POSTS = {
    "absolute target": post(target=f"http://gateway{CHAT}"),
    "absolute target, other authority": post(target=f"http://elsewhere:1{CHAT}"),
    "absolute target in capitals": post(target=f"HTTP://gateway{CHAT}"),
    "absolute https target": post(target=f"https://gateway{CHAT}"),
    "query": post(target=f"{CHAT}?a=b&c=%20?"),
    "empty query": post(target=f"{CHAT}?"),
    "empty Host": post(host=""),
    "IPv6 Host": post(host="[::1]:80"),
    "header names in capitals": post(BODY, "X-ODD: 1").replace(b"Content-Length", b"CONTENT-LENGTH"),
    "no blank after the colon": post().replace(b"Content-Length: ", b"Content-Length:"),
    "blanks around values": post()
    .replace(b"Content-Length: ", b"Content-Length:\t  ")
    .replace(b"\r\nContent", b" \t\r\nContent"),
    "leading zeros of the length": post().replace(b"Content-Length: ", b"Content-Length: 000"),
    "empty line first": b"\r\n" + post(),
    "several empty lines first": b"\r\n\r\n\r\n" + post(),
    "empty value": post(BODY, "X-Empty:"),
    "bytes above 127 in a value": post(BODY, "X-A: \xe9\xff"),
    "every token character": post(BODY, "!#$%&'*+-.^_`|~aZ09: 1"),
    "100 header lines": post(BODY, *(f"X-{i}: 1" for i in range(97))),
    "a head of 64 KiB": post(BODY, "X-A: " + "a" * (65536 - len(post(BODY, "X-A: ")) + len(BODY))),
    "chunked in capitals": chunked_post(BODY).replace(b"chunked", b"CHUNKED"),
    "chunked, one byte each": chunked_post(*(BODY[i : i + 1] for i in range(len(BODY)))),
    "upgrade to h2c": post(
        BODY, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"
    ),
    "upgrade without Connection": post(BODY, "Upgrade: h2c"),
    "keep-alive asked for": post(BODY, "Connection: keep-alive"),
    "unknown connection option": post(BODY, "Connection: X-A", "X-A: 1"),
    "content type with charset": post().replace(b"application/json", b"Application/JSON; charset=utf-8"),
    "vendor content type": post().replace(b"application/json", b"application/vnd.api+json"),
}


@pytest.mark.parametrize("request_", POSTS.values(), ids=POSTS)
async def test_legal_requests_reach_the_worker(gateway, request_):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(request_ + KEPT)
    assert [(await client.read()).status for _ in range(2)] == [200, 200]
    assert [(one.method, one.target, one.body) for one in worker.requests] == [("POST", CHAT, BODY)] * 2
    assert gw.counts.fast == 2


OTHERS = {
    "GET": (200, get("/health")),
    "query": (200, get("/health?a=b&c")),
    "absolute": (200, get("http://gateway/health")),
    "absolute, other authority": (200, get("http://elsewhere:99/health")),
    "escaped path": (200, get("/%68ealth")),
    "absolute without a path": (404, get("http://gateway")),
    "a path only in the query": (404, get("http://gateway?/health")),
    "root": (404, get("/")),
    "two slashes": (404, get("//health")),
    "unknown path": (404, get("/nope")),
    "bad escape": (404, get("/%zz")),
    "escaped NUL": (404, get("/a%00b")),
    "escapes that are not UTF-8": (404, get("/%ff%fe")),
    "long target": (404, get("/" + "a" * 60_000)),
    "GET on the data plane": (405, get(CHAT)),
    "PUT on the data plane": (405, head("PUT", CHAT, JSON, SIZE) + BODY),
    "DELETE on a probe": (405, head("DELETE", "/health")),
    "GET with a body": (200, head("GET", "/health", SIZE) + BODY),
    "GET with a chunked body": (
        200,
        head("GET", "/health", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n",
    ),
    "chunked with extension": (
        200,
        head("GET", "/health", "Transfer-Encoding: chunked") + b"3;a=b\r\nabc\r\n0\r\n\r\n",
    ),
    "chunked with trailers": (
        200,
        head("GET", "/health", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\nA: b\r\n\r\n",
    ),
    "bytes above 127": (200, get("/health", "X-A: \xe9\xff")),
    "every token character": (200, get("/health", "!#$%&'*+-.^_`|~aZ09: 1")),
    "100 header lines": (200, get("/health", *(f"X-{i}: 1" for i in range(99)))),
    "a line of 64 KiB": (200, get("/health", "X-A: " + "a" * 65_000)),
    "empty line first": (200, b"\r\n" + get("/health")),
    "empty Host": (200, get("/health", host="")),
    "connection options": (200, get("/health", "Connection: X-A, keep-alive")),
    "expectation without a body": (200, get("/health", "Expect: 100-continue")),
    "cookies": (200, get("/health", "Cookie: a=b; =; \xe9")),
    "bad content type": (200, get("/health", "Content-Type: ;;;")),
    "bad content coding": (200, head("GET", "/health", "Content-Encoding: gzip", SIZE) + BODY),
    "websocket key without upgrade": (
        200,
        get("/health", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"),
    ),
    "POST to another method's route": (405, head("POST", "/v1/models", JSON, SIZE) + BODY),
}


@pytest.mark.parametrize(("status", "request_"), OTHERS.values(), ids=OTHERS)
async def test_legal_requests_of_other_routes_are_answered_once(gateway, status, request_):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(request_ + KEPT)
    responses = [await client.read()]
    if responses[-1].status == 100:
        responses = [await client.read()]
    responses.append(await client.read())
    assert [one.status for one in responses] == [status, 200]
    assert responses[0].get("x-request-id")
    assert len(worker.requests) == 1
    assert (gw.counts.fast, gw.counts.slow) == (1, 1)


@pytest.mark.parametrize(("target", "status"), [("*", 404), (CHAT, 405), ("/health", 405), ("/nope", 404)])
async def test_options_without_cors(gateway, target, status):
    gw = await gateway(ScriptedWorker())
    client = await gw.client()
    response = await client.ask(head("OPTIONS", target), "OPTIONS")
    assert response.status == status
    assert (await client.ask(KEPT)).status == 200


@pytest.mark.parametrize("method", ["BREW", "A!#$%&'*+-.^_`|~Z", "get", "LOCK", "TRACE"])
@pytest.mark.parametrize("target", ["/health", CHAT])
async def test_other_methods_are_refused_in_the_gateways_own_words(gateway, target, method):
    """501 for a method nobody knows and 405 for one that is not for this route are both right."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    response = await client.ask(head(method, target))
    assert response.version == "HTTP/1.1"
    assert response.status in (405, 501)
    assert response.get("x-request-id")
    assert response.json()["error"]["code"]
    assert worker.requests == []


@pytest.mark.parametrize("target", ["/health", "/v1/models", CHAT, "/nope"])
async def test_head_has_no_body(gateway, target):
    gw = await gateway(ScriptedWorker())
    client = await gw.client()
    like = await client.ask(get(target), "GET")
    response = await client.ask(head("HEAD", target), "HEAD")
    assert response.status == like.status
    assert (await client.ask(KEPT)).status == 200


@pytest.mark.parametrize(
    "request_", [get("/health", version="HTTP/1.0", host=None), post(version="HTTP/1.0")]
)
@pytest.mark.parametrize("line", [None, b"Connection: keep-alive\r\n"])
async def test_http_1_0_gets_its_answer_and_a_close(gateway, request_, line):
    gw = await gateway(ScriptedWorker())
    if line is not None:
        at = request_.index(b"\r\n") + 2
        request_ = request_[:at] + line + request_[at:]
    client = await gw.client()
    response = await client.ask(request_)
    assert response.status == 200
    assert "transfer-encoding" not in dict(response.headers)
    assert await client.until_over() == b""


async def test_http_1_0_stream_ends_with_the_connection(gateway):
    gw = await gateway(ScriptedWorker())
    client = await gw.client()
    response = await client.ask(post(STREAM_BODY, version="HTTP/1.0"))
    assert response.get("transfer-encoding") is None
    assert response.get("content-length") is None
    assert response.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "unknown/1"])
@pytest.mark.parametrize("target", ["/health", "/nope", "/v1/models"])
async def test_an_upgrade_that_is_not_offered_is_ignored(gateway, target, protocol):
    """RFC 9110 7.8: a server may ignore Upgrade; what follows is no tunnel to anywhere."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(get(target, "Connection: Upgrade", f"Upgrade: {protocol}"))
    response = await client.read("GET")
    assert response.status == (404 if target == "/nope" else 200)
    client.end_sending()
    assert await client.until_over() == b""
