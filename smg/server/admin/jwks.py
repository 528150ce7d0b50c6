"""The public keys of a token issuer: fetched when they are needed, kept, and fetched again now and then.

However many tokens come, and whatever they name, the issuer is asked at most once in `PAUSE_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from smg.server.admin.verify import SigningKey, read_key
from smg.telemetry import logs
from smg.workers.engine import EngineClient, EngineError

log = logs.get(__name__)

FRESH_S = 300.0
# Keys of an issuer that does not answer are used up to this age.
STALE_S = 6 * 3600.0
PAUSE_S = 10.0
TIMEOUT_S = 5.0
MAX_BYTES = 1 << 20
MAX_KEYS = 100
CONFIGURATION = "/.well-known/openid-configuration"


class IssuerKeys:
    """`uri`: where the key set is; None: the issuer's OpenID configuration says it."""

    def __init__(
        self,
        client: EngineClient,
        issuer: str,
        uri: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._issuer = issuer
        self._uri = uri
        self._clock = clock
        self._keys: dict[str, SigningKey] = {}
        self._fetched_at = -STALE_S
        self._next_fetch = float("-inf")
        self._is_down = False
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str) -> SigningKey | None:
        """The key of that ID, after asking the issuer if it is unknown or old."""
        if kid not in self._keys or self._age() >= FRESH_S:
            await self.refresh()
        return self._keys.get(kid) if self._age() < STALE_S else None

    async def refresh(self) -> None:
        """Fetch the keys unless they were just asked for; all who wait meanwhile wait for the same fetch."""
        if self._fetching is None:
            if self._clock() < self._next_fetch:
                return
            self._fetching = asyncio.create_task(self._fetch(), name="issuer keys")
        await asyncio.shield(self._fetching)

    async def warm_up(self) -> None:
        """Fetch the keys at the start. If the issuer is not up yet, the first token asks it again at once."""
        await self.refresh()
        self._next_fetch = float("-inf")

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _age(self) -> float:
        return self._clock() - self._fetched_at

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                self._keys = read_key_set(await self._get(self._uri or await self._discover()))
        except (EngineError, TimeoutError) as error:
            self._failed(str(error) or "no answer in time")
        else:
            self._fetched_at = self._clock()
            if self._is_down:
                log.info("keys of the token issuer are there again", keys=len(self._keys))
            self._is_down = False
        finally:
            self._next_fetch = self._clock() + PAUSE_S
            self._fetching = None

    def _failed(self, problem: str) -> None:
        if not self._is_down:
            effect = "the last keys stay in use" if self._age() < STALE_S else "tokens are refused"
            log.warn(
                "keys of the token issuer cannot be fetched",
                source=_shown(self._uri or self._issuer),
                problem=problem,
                effect=effect,
            )
        self._is_down = True

    async def _discover(self) -> str:
        found = await self._get(self._issuer.rstrip("/") + CONFIGURATION)
        uri = found.get("jwks_uri")
        if not isinstance(uri, str) or not uri.startswith(("https://", "http://")):
            raise EngineError("the OpenID configuration names no jwks_uri")
        if self._issuer.startswith("https://") and not uri.startswith("https://"):
            raise EngineError("the OpenID configuration of an https issuer names a jwks_uri without TLS")
        return uri

    async def _get(self, url: str) -> Mapping[str, Any]:
        answer = await self._client.get(url, None, TIMEOUT_S, MAX_BYTES, {"Accept": "application/json"})
        if not answer.is_ok:
            raise EngineError(f"status {answer.status}")
        content = answer.json()
        if not isinstance(content, dict):
            raise EngineError("the answer is no JSON object")
        return content


def read_key_set(content: Mapping[str, Any]) -> dict[str, SigningKey]:
    """The keys of a JWK set that can verify a token, by their IDs. `EngineError` when there is none."""
    listed = content.get("keys")
    if not isinstance(listed, list):
        raise EngineError("the answer is no JWK set")
    keys: dict[str, SigningKey] = {}
    for one in listed[:MAX_KEYS]:
        kid = one.get("kid") if isinstance(one, dict) else None
        key = read_key(one) if isinstance(kid, str) else None
        if key is not None:
            keys.setdefault(str(kid), key)
    if not keys:
        raise EngineError("the JWK set has no key with a kid that can verify a signature")
    return keys


def _shown(url: str) -> str:
    """A URL without credentials and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.hostname else parts.path
