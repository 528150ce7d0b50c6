"""Headers in both directions, request IDs, and what browsers are told."""

from __future__ import annotations

import re

import pytest

from tests.wire.raw_client import BODY, CHAT, STREAM_BODY, chat, get, head, post
from tests.wire.scripted_worker import ScriptedWorker, plain

FORWARDED = [
    ("Authorization", "Bearer x  y"),
    ("anthropic-version", "2023-06-01"),
    ("Anthropic-Beta", "a,b"),
    ("X-Correlation-ID", "c-1"),
    ("X-Request-ID-Span", "s"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "a=1"),
    ("X-SMG-Routing-Key", "k"),
]
DROPPED = [
    ("Cookie", "a=b"),
    ("User-Agent", "x"),
    ("Accept", "text/plain"),
    ("Accept-Encoding", "gzip"),
    ("X-Forwarded-For", "1.2.3.4"),
    ("X-SMG-Routing-Tokens", "1,2"),
    ("X-SMG-Target-Worker", "0"),
    ("x-api-key", "secret"),
    ("X-Trace-ID", "t"),
    ("Connection", "keep-alive, X-Own"),
    ("Keep-Alive", "5"),
    ("TE", "trailers"),
    ("Proxy-Authorization", "x"),
    ("X-Own", "1"),
    ("X-Request-IDs", "1"),
]


def lines(pairs) -> list[str]:
    return [f"{name}: {value}" for name, value in pairs]


@pytest.mark.parametrize("body", [BODY, chat("x" * 1_500_000)], ids=["buffered", "piped"])
async def test_the_worker_gets_the_allow_list_and_nothing_else(gateway, body):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    response = await gw.ask(post(body, *lines(FORWARDED + DROPPED), target=CHAT + "?a=b"))
    assert response.status == 200
    seen = worker.requests[0]
    own = {"host", "accept", "content-type", "content-length"}
    assert {name for name, _ in seen.headers} == own | {name.lower() for name, _ in FORWARDED}
    for name, value in FORWARDED:
        assert seen.all(name.lower()) == [value]
    assert seen.all("accept") == ["*/*"]
    assert seen.all("content-type") == ["application/json"]
    assert seen.target == CHAT, "the query is not forwarded"


async def test_the_client_gets_the_workers_headers_but_those_of_the_hop(gateway):
    kept = [
        "Set-Cookie: a=b",
        "Set-Cookie: c=d",
        "Server: engine",
        "X-Own: é",
        "Retry-After: 7",
        "Date: x",
        "ETag: 1",
    ]
    hop = ["Keep-Alive: timeout=5", "Proxy-Connection: x", "Upgrade: h2", "TE: x", "Trailer: X"]
    nominated = ["Connection: X-Hop, x-other", "X-Hop: 1", "Connection: X-More", "X-Other: 2", "X-More: 3"]
    ours = ["X-SMG-Error-Code: a", "X-Request-ID: worker", "X-SMG-Routed-Worker-Id: b"]
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for body in (BODY, STREAM_BODY):
        for status in ("200 OK", "400 Bad Request", "302 Found"):
            wire = plain(b"{}", status, *kept, *hop, *nominated, *ours)

            async def play(connection, request, wire=wire):
                await connection.send(wire)

            worker.play = play
            response = await gw.ask(post(body, "X-Request-ID: mine"))
            assert response.status == int(status[:3])
            assert response.reason == status[4:]
            names = [name for name, _ in response.headers]
            for line in kept:
                assert (
                    tuple(line.lower().split(": ")) in [(n, v.lower()) for n, v in response.headers]
                    or "é" in line
                )
            for name in ("keep-alive", "proxy-connection", "upgrade", "te", "trailer", "connection"):
                assert name not in names
            for name in ("x-hop", "x-other", "x-more"):
                assert name not in names, "named in Connection"
            assert response.all("x-request-id") == ["mine"]
            assert response.all("x-smg-routed-worker-id") == [worker.url]
            assert response.get("x-smg-error-code") is None


PREFIXES = {
    CHAT: "chatcmpl-",
    "/v1/completions": "cmpl-",
    "/generate": "gnt-",
    "/v1/embeddings": "req-",
    "/health": "req-",
    "/nope": "req-",
}


@pytest.mark.parametrize(("target", "prefix"), PREFIXES.items())
async def test_ids_are_generated_by_route(gateway, target, prefix):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for _ in range(2):
        request = get(target) if prefix == "req-" and "v1" not in target else post(target=target)
        assert re.fullmatch(prefix + "[A-Za-z0-9]{24}", (await gw.ask(request)).get("x-request-id"))
    assert all(one.get("x-request-id") is None for one in worker.requests), "ours is not sent"


IDS = {
    "first of the list": (["X-Request-ID: a", "X-Correlation-ID: b"], "a"),
    "second of the list": (["Request-ID: d", "X-Trace-ID: c", "X-Correlation-ID: b"], "b"),
    "third of the list": (["Request-ID: d", "X-Trace-ID: c"], "c"),
    "last of the list": (["Request-ID: d"], "d"),
    "empty counts as absent": (["X-Request-ID:", "X-Trace-ID: c"], "c"),
    "of 128 characters": (["X-Request-ID: " + "x" * 128], "x" * 128),
    "too long": (["X-Request-ID: " + "x" * 129], None),
    "with a blank": (["X-Request-ID: a b"], None),
    "above ASCII": (["X-Request-ID: \xe9"], None),
    "first of two": (["X-Request-ID: a", "X-Request-ID: b"], "a"),
}


@pytest.mark.parametrize(("sent", "expected"), IDS.values(), ids=IDS)
async def test_ids_of_callers_are_kept_where_they_can_be(gateway, sent, expected):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for request in (post(BODY, *sent), get("/health", *sent)):
        found = (await gw.ask(request)).all("x-request-id")
        assert len(found) == 1
        if expected is not None:
            assert found == [expected]
        else:
            assert re.fullmatch("(chatcmpl|req)-[A-Za-z0-9]{24}", found[0])


async def test_other_names_for_request_ids(gateway):
    gw = await gateway(ScriptedWorker(), request_id_headers=("X-My-ID",))
    for request in (post, lambda *a: get("/health", *a[1:])):
        response = await gw.ask(request(BODY, "X-Request-ID: no", "X-My-ID: yes"))
        assert response.all("x-request-id") == ["yes"]


@pytest.mark.parametrize("target", [CHAT, "/health", "/v1/models", "/nope"])
async def test_every_error_has_an_id(gateway, target):
    gw = await gateway(ScriptedWorker(), api_key="k")
    for request in (head("PATCH", target), post(b"{", target=target), head("GET", target, host=None)):
        response = await gw.ask(request, "GET")
        assert len(response.all("x-request-id")) == 1


# ---- browsers

ORIGIN = "https://app.example"


@pytest.mark.parametrize(("allowed", "origin"), [(("*",), "*"), ((ORIGIN,), ORIGIN)])
@pytest.mark.parametrize(
    "request_", [post, lambda *a: post(STREAM_BODY, *a[1:]), lambda *a: get("/v1/models", *a[1:])]
)
async def test_allowed_origins_are_told(gateway, allowed, origin, request_):
    gw = await gateway(ScriptedWorker(), cors_allowed_origins=allowed)
    response = await gw.ask(request_(BODY, f"Origin: {ORIGIN}"))
    assert response.all("access-control-allow-origin") == [origin]
    assert "x-request-id" in (response.get("access-control-expose-headers") or "")
    other = await gw.ask(request_(BODY, "Origin: https://evil.example"))
    assert other.get("access-control-allow-origin") == ("*" if origin == "*" else None)
    if origin != "*":
        assert "origin" in (other.get("vary") or "").lower(), "a cache must tell the origins apart"


@pytest.mark.parametrize("request_", [post(b"{", "Origin: " + ORIGIN), get("/nope", "Origin: " + ORIGIN)])
async def test_browsers_may_read_errors(gateway, request_):
    gw = await gateway(ScriptedWorker(), cors_allowed_origins=("*",))
    assert (await gw.ask(request_)).get("access-control-allow-origin") == "*"


@pytest.mark.parametrize("target", [CHAT, "/v1/models", "/generate"])
async def test_preflight(gateway, target):
    worker = ScriptedWorker()
    gw = await gateway(worker, cors_allowed_origins=(ORIGIN,), api_key="k")
    wanted = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,x-own")
    response = await gw.ask(head("OPTIONS", target, f"Origin: {ORIGIN}", *wanted))
    assert response.status in (200, 204)
    assert response.get("access-control-allow-origin") == ORIGIN
    assert "POST" in (response.get("access-control-allow-methods") or "")
    assert response.get("access-control-allow-headers") == "authorization,x-own"
    refused = await gw.ask(head("OPTIONS", target, "Origin: https://evil.example", *wanted))
    assert refused.get("access-control-allow-origin") is None
    assert worker.requests == []


async def test_without_the_flag_nothing_is_said_to_browsers(gateway):
    gw = await gateway(ScriptedWorker())
    for request in (post(BODY, f"Origin: {ORIGIN}"), get("/health", f"Origin: {ORIGIN}")):
        assert not [n for n, _ in (await gw.ask(request)).headers if n.startswith("access-control")]
