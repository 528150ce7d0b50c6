"""The keys of a token issuer: kept, refreshed, bounded, and what happens while the issuer is away."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from smg.server.admin import jwks
from smg.server.admin.jwks import IssuerKeys, read_key_set
from smg.workers.engine import EngineError, open_session
from tests.clock import Clock
from tests.waiting import until
from tests.wire.token_issuer import Issuer, ec_key, ed_key, jwk, rsa_key


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    await issuer.start()
    yield issuer
    await issuer.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as session:
        yield session


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(issuer: Issuer, session: aiohttp.ClientSession, clock: Clock) -> IssuerKeys:
    return issuer.keys_of(session, clock=clock)


async def test_keys_are_fetched_once_and_kept(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    for _ in range(20):
        assert await keys.find("first") is not None
    assert issuer.asked == ["/jwks"]
    clock.now += jwks.FRESH_S
    assert await keys.find("first") is not None
    assert issuer.asked == ["/jwks"] * 2


async def test_forged_key_ids_cannot_make_requests(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    found = await asyncio.gather(*(keys.find(f"forged-{n}") for n in range(500)))
    assert not any(found)
    assert len(issuer.asked) == 1
    clock.now += jwks.PAUSE_S
    await asyncio.gather(*(keys.find(f"forged-{n}") for n in range(500)))
    assert len(issuer.asked) == 2


async def test_a_new_key_is_found_after_the_pause(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    assert await keys.find("first") is not None
    issuer.keys.append(jwk(rsa_key("second"), "second"))
    assert await keys.find("second") is None
    clock.now += jwks.PAUSE_S
    assert await keys.find("second") is not None


async def test_a_key_that_was_taken_back_is_forgotten(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    issuer.keys.append(jwk(rsa_key("second"), "second"))
    assert await keys.find("second") is not None
    issuer.keys.pop()
    clock.now += jwks.FRESH_S
    assert await keys.find("second") is None


async def test_old_keys_work_while_the_issuer_is_away_but_not_for_ever(
    issuer: Issuer, keys: IssuerKeys, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await keys.find("first") is not None
    port = issuer.port
    await issuer.stop()
    with caplog.at_level(logging.WARNING, "smg"):
        for _ in range(10):
            clock.now += jwks.FRESH_S
            assert await keys.find("first") is not None
        assert [record.message for record in caplog.records] == ["keys of the token issuer cannot be fetched"]
    clock.now += jwks.STALE_S
    assert await keys.find("first") is None
    await issuer.start(port)
    clock.now += jwks.PAUSE_S
    assert await keys.find("first") is not None


async def test_after_a_failed_start_the_first_token_asks_again(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    issuer.answer = web.Response(status=503)
    await keys.warm_up()
    issuer.answer = None
    assert await keys.find("first") is not None
    assert len(issuer.asked) == 2


async def test_a_silent_issuer_is_asked_once_and_ends_with_the_gateway(
    issuer: Issuer, keys: IssuerKeys
) -> None:
    issuer.gate.clear()
    waiting = [asyncio.create_task(keys.find("first")) for _ in range(50)]
    await until(lambda: issuer.asked, "the issuer is asked")
    await keys.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(issuer.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 500, "text": "x"},
        {"status": 302, "headers": {"Location": "/elsewhere"}},
        {"text": "no json"},
        {"text": "[]"},
        {"text": "{}"},
        {"text": '{"keys": {}}'},
        {"text": '{"keys": []}'},
        {"text": '{"keys": [1, null, {"kid": "a"}]}'},
        {"text": "[" * 100_000},
        {"body": b"\xff\xfe"},
        {"text": json.dumps({"keys": [], "x": "y" * (2 << 20)})},
    ],
    ids=lambda answer: str(answer)[:40],
)
async def test_garbage_is_no_key_set(issuer: Issuer, keys: IssuerKeys, answer: dict[str, Any]) -> None:
    issuer.answer = web.Response(**answer)
    assert await keys.find("first") is None


async def test_the_configuration_names_the_key_set(issuer: Issuer, session: aiohttp.ClientSession) -> None:
    assert await issuer.keys_of(session, uri=None).find("first") is not None
    assert issuer.asked == ["/.well-known/openid-configuration", "/jwks"]


@pytest.mark.parametrize("uri", [None, 5, "file:///etc/passwd", "jwks", ""])
async def test_a_configuration_without_a_key_set(
    issuer: Issuer, session: aiohttp.ClientSession, uri: object
) -> None:
    issuer.configuration = {"issuer": "x", "jwks_uri": uri}
    assert await issuer.keys_of(session, uri=None).find("first") is None
    assert issuer.asked == ["/.well-known/openid-configuration"]


def test_what_a_key_may_be_used_for() -> None:
    listed = [
        jwk(rsa_key("first"), "any RSA"),
        jwk(rsa_key("first"), "PS256 only", alg="PS256"),
        jwk(ec_key("e"), "EC"),
        jwk(ed_key("d"), "Ed"),
    ]
    algorithms = {kid: key.algorithms for kid, key in read_key_set({"keys": listed}).items()}
    assert algorithms == {
        "any RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        "PS256 only": ("PS256",),
        "EC": ("ES256",),
        "Ed": ("EdDSA",),
    }


def test_keys_that_are_none() -> None:
    good = jwk(rsa_key("first"), "good")
    symmetric = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"}
    listed = [
        symmetric,
        {**symmetric, "alg": "HS256"},
        {**good, "kid": "encryption", "use": "enc"},
        {**good, "kid": "signing only", "key_ops": ["sign"]},
        {**good, "kid": "HMAC", "alg": "HS256"},
        {**good, "kid": "alg none", "alg": "none"},
        {**good, "kid": 5},
        {**good, "kid": "other type", "kty": ["RSA"]},
        {**good, "kid": "broken", "n": "!!"},
        {"kid": "empty", "kty": "RSA"},
        jwk(rsa_key("short", 1024), "short"),
    ]
    assert read_key_set({"keys": [good, *listed]}).keys() == {"good"}
    with pytest.raises(EngineError, match="no key"):
        read_key_set({"keys": listed})


def test_a_set_has_a_limit() -> None:
    good = jwk(rsa_key("first"), "")
    many = [{**good, "kid": str(number)} for number in range(1000)]
    assert len(read_key_set({"keys": many})) == jwks.MAX_KEYS
