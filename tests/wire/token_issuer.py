"""A token issuer on a loopback port: keys, tokens, and the misbehaviour a test wants."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from typing import Any

import aiohttp
import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from smg.config.admin import RoleMapping
from smg.server.admin.jwks import IssuerKeys
from smg.server.admin.tokens import Tokens
from smg.workers.engine import EngineClient

AUDIENCE = "api://smg"


@functools.cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@functools.cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@functools.cache
def ed_key(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, kid: str, **members: Any) -> dict[str, Any]:
    """The public half of a key as member of a JWK set."""
    kinds = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    algorithm = next((made for kind, made in kinds.items() if isinstance(key, kind)), OKPAlgorithm)
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, **members}


class Issuer:
    """`asked` counts requests by path. `answer` replaces the key set by an answer of its own; `gate`, when it
    is closed, lets answers wait."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [jwk(rsa_key("first"), "first", use="sig", alg="RS256")]
        self.asked: list[str] = []
        self.answer: web.Response | None = None
        self.configuration: dict[str, Any] | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = ""

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_get("/jwks", self._jwks)
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        self.gate.set()
        await self._runner.cleanup()

    async def _jwks(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        await self.gate.wait()
        return self.answer or web.json_response({"keys": self.keys})

    async def _configuration(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        found = self.configuration or {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}
        return web.json_response(found)

    def token(
        self, key: Any = None, kid: str | None = "first", algorithm: str = "RS256", **claims: Any
    ) -> str:
        """A token that is good unless something is changed; a claim of None is left out."""
        now = int(time.time())
        whole = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "u1",
            "iat": now,
            "exp": now + 600,
            "roles": ["admin"],
            **claims,
        }
        whole = {name: value for name, value in whole.items() if value is not None}
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode(whole, key or rsa_key("first"), algorithm, headers=headers)

    def keys_of(
        self, session: aiohttp.ClientSession, uri: str | None = "/jwks", **options: Any
    ) -> IssuerKeys:
        return IssuerKeys(EngineClient(session), self.url, None if uri is None else self.url + uri, **options)

    def tokens(self, session: aiohttp.ClientSession, *mapping: str, **options: Any) -> Tokens:
        roles = [RoleMapping.parse(one) for one in mapping]
        return Tokens(self.url, AUDIENCE, self.keys_of(session, **options), roles)
