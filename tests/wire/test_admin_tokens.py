"""Tokens on admin routes, good and forged, and the audit log (FF-36: nothing leaks)."""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from smg.config.model import Telemetry
from smg.telemetry import logs
from tests.waiting import until
from tests.wire.control_plane import control_plane
from tests.wire.live_gateway import LiveGateway, running
from tests.wire.raw_client import BODY, get, post
from tests.wire.scripted_worker import ScriptedWorker
from tests.wire.token_issuer import AUDIENCE, Issuer, ec_key, ed_key, jwk, rsa_key

KEYS = ("id1:Svc:admin:adm-key", "id2:Reader:user:usr-key", "id3:Dots:admin:a.b.c")


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    await issuer.start()
    issuer.keys += [jwk(ec_key("e"), "ec"), jwk(ed_key("d"), "ed"), jwk(rsa_key("first"), "any")]
    yield issuer
    await issuer.stop()


def part(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def unsigned(issuer: Issuer, **header: Any) -> str:
    claims = {"iss": issuer.url, "aud": "api://smg", "exp": int(time.time()) + 600, "roles": ["admin"]}
    return f"{part(header)}.{part(claims)}."


def flipped(token: str) -> str:
    head, body, signature = token.split(".")
    return f"{head}.{body}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def with_claims(token: str, **claims: Any) -> str:
    head, body, signature = token.split(".")
    read = json.loads(base64.urlsafe_b64decode(body + "=="))
    return f"{head}.{part({**read, **claims})}.{signature}"


GOOD: dict[str, Callable[[Issuer], str]] = {
    "plain": lambda issuer: issuer.token(),
    "EC": lambda issuer: issuer.token(ec_key("e"), "ec", "ES256"),
    "Ed25519": lambda issuer: issuer.token(ed_key("d"), "ed", "EdDSA"),
    "PSS": lambda issuer: issuer.token(kid="any", algorithm="PS384"),
    "several audiences": lambda issuer: issuer.token(aud=["x", "api://smg"]),
    "expired within the leeway": lambda issuer: issuer.token(exp=int(time.time()) - 5),
    "no sub": lambda issuer: issuer.token(sub=None),
}
BAD: dict[str, Callable[[Issuer], str]] = {
    "expired": lambda issuer: issuer.token(exp=int(time.time()) - 120),
    "not yet": lambda issuer: issuer.token(nbf=int(time.time()) + 120),
    "never expires": lambda issuer: issuer.token(exp=None),
    "exp is a text": lambda issuer: issuer.token(exp="soon"),
    "exp is endless": lambda issuer: issuer.token(exp=float("inf")),
    "other audience": lambda issuer: issuer.token(aud="other"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "other issuer": lambda issuer: issuer.token(iss="http://evil"),
    "issuer with a slash": lambda issuer: issuer.token(iss=issuer.url + "/"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "key of somebody else": lambda issuer: issuer.token(rsa_key("theirs")),
    "unknown key": lambda issuer: issuer.token(kid="unknown"),
    "no key ID": lambda issuer: issuer.token(kid=None),
    "algorithm not of the key": lambda issuer: issuer.token(algorithm="PS256"),
    "key of another type": lambda issuer: issuer.token(ec_key("e"), "first", "ES256"),
    "signature changed": lambda issuer: flipped(issuer.token()),
    "claims changed": lambda issuer: with_claims(issuer.token(roles=["user"]), roles=["admin"]),
    "alg none": lambda issuer: unsigned(issuer, alg="none", kid="first"),
    "alg None": lambda issuer: unsigned(issuer, alg="None", kid="first"),
    "no alg": lambda issuer: unsigned(issuer, kid="first"),
    "alg is a list": lambda issuer: unsigned(issuer, alg=["RS256"], kid="first"),
    "HMAC with the public key": lambda issuer: hmac_with_public_key(issuer),
    "no claims": lambda issuer: f"{part({'alg': 'RS256', 'kid': 'first'})}..",
    "no base64": lambda issuer: "a.b.c",
    "only dots": lambda issuer: "..",
    "deep": lambda issuer: "W1tb" * 1500 + ".e30.",
    "not ASCII": lambda issuer: "ü.b.c",
}


def hmac_with_public_key(issuer: Issuer) -> str:
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = rsa_key("first").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = unsigned(issuer, alg="HS256", kid="first").rstrip(".")
    signature = hmac.new(public, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


@pytest.mark.parametrize("name", GOOD)
async def test_good_tokens(issuer: Issuer, name: str) -> None:
    async with control_plane(tokens=issuer.tokens) as plane:
        assert (await plane.ask("GET", "/workers", headers=bearer(GOOD[name](issuer))))[0] == 200


@pytest.mark.parametrize("name", BAD)
async def test_bad_tokens(issuer: Issuer, name: str, caplog: pytest.LogCaptureFixture) -> None:
    token = BAD[name](issuer)
    with caplog.at_level(logging.DEBUG, "smg"):
        await _refused(issuer, token)
    told = [str(vars(record)) for record in caplog.records if record.name.startswith("smg")]
    assert any("token refused on an admin route" in one for one in told)
    assert len(token) < 5 or not any(token in one for one in told)


async def _refused(issuer: Issuer, token: str) -> None:
    async with (
        control_plane(tokens=issuer.tokens, admins=KEYS) as plane,
        plane.http.post("/flush_cache", headers=bearer(token)) as answer,
    ):
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="control-plane"'
        assert await answer.text() == "Invalid authentication token"


async def test_tokens_and_keys_side_by_side(issuer: Issuer) -> None:
    async with control_plane(tokens=issuer.tokens, admins=KEYS, api_key="shared") as plane:

        async def status(credential: str) -> int:
            return (await plane.ask("GET", "/workers", headers=bearer(credential)))[0]

        assert await status(issuer.token()) == await status("adm-key") == 200
        assert await status("usr-key") == await status(issuer.token(roles=["user"])) == 403
        # Neither the shared key nor a key that looks like a token.
        assert await status("shared") == await status("a.b.c") == 401
        assert (await plane.get("/workers"))[0] == 401
        assert (await plane.get("/v1/models"))[0] != 401


async def test_a_key_with_two_dots_is_a_key_where_there_are_no_tokens() -> None:
    async with control_plane(admins=KEYS) as plane:
        assert (await plane.ask("GET", "/workers", headers=bearer("a.b.c")))[0] == 200


async def test_mapped_roles(issuer: Issuer) -> None:
    make = functools.partial(issuer.tokens)
    async with control_plane(tokens=lambda session: make(session, "Boss=admin")) as plane:
        for role, status in (("Boss", 200), ("admin", 403)):
            headers = bearer(issuer.token(roles=[role]))
            assert (await plane.ask("GET", "/get_loads", headers=headers))[0] == status


async def test_the_issuer_comes_late(issuer: Issuer) -> None:
    port = issuer.port
    await issuer.stop()
    async with control_plane(tokens=lambda session: issuer.tokens(session, clock=Ticking())) as plane:
        headers = bearer(issuer.token())
        assert (await plane.ask("GET", "/workers", headers=headers))[0] == 401
        await issuer.start(port)
        assert (await plane.ask("GET", "/workers", headers=headers))[0] == 200


async def test_no_request_fails_while_the_issuer_restarts_under_load(issuer: Issuer) -> None:
    """Serving requests and admin requests with a known key go on."""
    options = {
        "api_key": "serving-key",
        "jwt_issuer": issuer.url,
        "jwt_audience": AUDIENCE,
        "jwt_jwks_uri": issuer.url + "/jwks",
    }
    statuses: list[int] = []
    enough = asyncio.Event()
    token = f"Authorization: Bearer {issuer.token()}"

    async def ask_on(gateway: LiveGateway) -> None:
        while not enough.is_set():
            statuses.append((await gateway.ask(post(BODY, "Authorization: Bearer serving-key"))).status)
            statuses.append((await gateway.ask(get("/workers", token), "GET")).status)

    async def more() -> None:
        wanted = len(statuses) + 20
        await until(lambda: len(statuses) >= wanted, "requests go on")

    async with running(ScriptedWorker(), **options) as gateway, asyncio.TaskGroup() as group:
        # The first token fetches the keys.
        assert (await gateway.ask(get("/workers", token), "GET")).status == 200
        load = group.create_task(ask_on(gateway))
        for _ in range(3):
            await more()
            port = issuer.port
            await issuer.stop()
            await more()
            # A forged key ID makes the gateway look for keys that nobody gives.
            forged = f"Authorization: Bearer {issuer.token(kid='unknown')}"
            assert (await gateway.ask(get("/workers", forged), "GET")).status == 401
            await more()
            await issuer.start(port)
        await more()
        enough.set()
        await load
    assert set(statuses) == {200}


class Ticking:
    """A minute passes between any two looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 60
        return self.now


async def test_the_audit_log_names_who_did_what_and_shows_no_credential(issuer: Issuer) -> None:
    written = io.StringIO()
    stop = logs.setup(Telemetry(log_json=True, log_level="error"), written)
    try:
        async with control_plane(tokens=issuer.tokens, admins=KEYS, audited=True) as plane:
            token = issuer.token()
            forged = flipped(issuer.token(sub="u3"))
            for method, path, credential in (
                ("POST", "/flush_cache?x=secret", token),
                ("GET", "/workers", token),
                ("GET", "/workers", forged),
                ("DELETE", "/workers/00000000-0000-0000-0000-000000000000", "adm-key"),
                ("GET", "/workers", "usr-key"),
                ("GET", "/workers", "wrong-key"),
                ("GET", "/v1/models", "adm-key"),
            ):
                headers = {**bearer(credential), "X-Request-Id": "mine"}
                await plane.ask(method, path, headers=headers)
            async with plane.http.post("/flush_cache", headers=bearer(issuer.token(sub="u2"))) as answer:
                made_up = answer.headers["X-Request-Id"]
    finally:
        stop()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    names = ("principal", "auth_method", "role", "method", "path", "status", "request_id")
    assert [tuple(line[name] for name in names) for line in lines] == [
        ("u1", "token", "admin", "POST", "/flush_cache", 200, "mine"),
        ("unauthenticated", "none", "", "GET", "/workers", 401, "mine"),
        ("id1", "key", "admin", "DELETE", "/workers/00000000-0000-0000-0000-000000000000", 404, "mine"),
        ("id2", "key", "user", "GET", "/workers", 403, "mine"),
        ("unauthenticated", "none", "", "GET", "/workers", 401, "mine"),
        ("u2", "token", "admin", "POST", "/flush_cache", 200, made_up),
    ]
    assert {(line["message"], line["target"]) for line in lines} == {("admin request", "smg.audit")}
    text = written.getvalue()
    assert not any(secret in text for secret in (token, forged, "adm-key", "wrong-key", "secret"))


async def test_a_token_with_many_roles_is_longer_than_aiohttps_own_limit(issuer: Issuer) -> None:
    options = {"jwt_issuer": issuer.url, "jwt_audience": AUDIENCE, "jwt_jwks_uri": f"{issuer.url}/jwks"}
    async with running(wait=False, **options) as gateway:
        token = issuer.token(groups=[f"group-{number:05}" for number in range(1500)])
        assert len(token) > 20_000
        answer = await gateway.ask(
            b"GET /workers HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n",
            "GET",
        )
        assert answer.status == 200
