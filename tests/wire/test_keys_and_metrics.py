"""Keys come before everything else (FF-36), and clients cannot make time series (FF-32)."""

from __future__ import annotations

import pytest

from smg.config.specs import TenantKey
from tests.wire.raw_client import BODY, CHAT, chat, connect, get, head, post
from tests.wire.scripted_worker import ScriptedWorker

KEY = "Authorization: Bearer secret"
GOOD = {
    "plain": [KEY],
    "small letters": ["authorization: bearer secret"],
    "capitals": ["AUTHORIZATION: BEARER secret"],
    "two blanks": ["Authorization: Bearer  secret"],
    "blank at the end": ["Authorization: Bearer secret  "],
    "right, then wrong": [KEY, "Authorization: Bearer wrong"],
    "tenant": ["Authorization: Bearer of-a"],
    "key of UTF-8": ["Authorization: Bearer " + "schlüssel".encode().decode("latin-1")],
}
BAD = {
    "none": [],
    "empty": ["Authorization:"],
    "only the scheme": ["Authorization: Bearer"],
    "only blanks": ["Authorization: Bearer   "],
    "wrong": ["Authorization: Bearer wrong"],
    "longer": ["Authorization: Bearer secrets"],
    "shorter": ["Authorization: Bearer secre"],
    "other case": ["Authorization: Bearer Secret"],
    "other scheme": ["Authorization: Basic secret"],
    "no scheme": ["Authorization: secret"],
    "no blank": ["Authorization: Bearersecret"],
    "wrong, then right": ["Authorization: Bearer wrong", KEY],
    "other header": ["x-api-key: secret"],
    "above ASCII": ["Authorization: Bearer \xff\xfe"],
    "latin-1 for UTF-8": ["Authorization: Bearer schl\xfcssel"],
    "very long": ["Authorization: Bearer " + "s" * 50_000],
    "in the query": [],
}
KEYS = {
    "api_key": "secret",
    "tenant_api_key": (TenantKey("a", "of-a"), TenantKey("b", "schlüssel")),
}


@pytest.mark.parametrize("lines", GOOD.values(), ids=GOOD)
async def test_right_keys(gateway, lines):
    worker = ScriptedWorker()
    gw = await gateway(worker, **KEYS)
    assert (await gw.ask(post(BODY, *lines))).status == 200
    assert len(worker.requests) == 1


BODIES = {
    "good": post(BODY),
    "broken JSON": post(b"{"),
    "no content type": head("POST", CHAT, "Content-Length: 2") + b"{}",
    "only the head of 30 MB": head(
        "POST", CHAT, "Content-Type: application/json", "Content-Length: 30000000"
    ),
    "above the limit": head("POST", CHAT, "Content-Type: application/json", "Content-Length: 99999999999"),
    "chunked without an end": head("POST", CHAT, "Transfer-Encoding: chunked") + b"5\r\nhel",
    "bad chunk": head("POST", CHAT, "Transfer-Encoding: chunked") + b"zz\r\n",
    "unknown model": post(chat(model="nope")),
}


@pytest.mark.parametrize("request_", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("retries", [True, False], ids=["buffered", "piped"])
async def test_wrong_keys_are_401_whatever_the_body(gateway, request_, retries):
    worker = ScriptedWorker()
    gw = await gateway(worker, disable_retries=not retries, **KEYS)
    first, rest = request_.split(b"\r\n", 1)
    for name, lines in BAD.items():
        target = first.replace(b" HTTP", b"?api_key=secret HTTP") if name == "in the query" else first
        extra = "".join(line + "\r\n" for line in lines).encode("latin-1")
        client = await gw.client()
        await client.send(target + b"\r\n" + extra + rest)
        response = await client.read()
        assert (response.status, response.body) == (401, b""), name
        assert (response.get("www-authenticate") or "").startswith('Bearer realm="data-plane"')
        assert response.get("x-request-id")
        client.close()
    assert worker.requests == []


async def test_a_large_body_with_a_wrong_key_is_not_taken(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker, **KEYS)
    client = await gw.client()
    client.transport.write(post(b" " * 30_000_000))
    response = await client.read()
    assert (response.status, response.closes) == (401, True)
    client.close()
    await gw.settled()
    assert worker.requests == []


@pytest.mark.parametrize("target", ["/health", "/liveness", "/readiness", "/v1/models", "/get_model_info"])
async def test_public_routes_need_no_key(gateway, target):
    gw = await gateway(ScriptedWorker(), **KEYS)
    assert (await gw.ask(get(target), "GET")).status != 401


async def scrape(gw) -> str:
    site = next(iter(gw.server._runners[1].sites))
    client = await connect(site._server.sockets[0].getsockname()[1])
    response = await client.ask(get("/metrics"), "GET")
    client.close()
    return response.body.decode()


def series(text: str) -> set[str]:
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")}


async def test_clients_cannot_make_time_series(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)

    async def storm(first: int) -> None:
        client = await gw.client()
        for i in range(first, first + 130):
            name = f"junk{i}"
            await client.ask(post(chat(model=name)))
            await client.ask(get(f"/{name}"))
            await client.ask(head("OPTIONS", f"/{name}", f"X-{name}: {name}"))
            await client.ask(
                post(BODY, f"X-Request-ID: {name}", f"X-SMG-Routing-Key: {name}", target=f"{CHAT}?{name}")
            )
        client.close()

    await storm(0)
    before = await scrape(gw)
    await storm(1000)
    after = await scrape(gw)
    assert series(before) == series(after)
    assert "junk" not in after
    counted = [
        line
        for line in after.splitlines()
        if line.startswith("smg_http_responses_total{") and '"404"' in line
    ]
    assert sum(float(line.rsplit(" ", 1)[1]) for line in counted) >= 260
