"""JSON Web Tokens as credentials of admin routes: from the bearer text to a caller with a role."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from smg.config.admin import RoleMapping
from smg.server.admin.caller import ADMIN, USER, Caller
from smg.server.admin.jwks import IssuerKeys
from smg.server.admin.verify import TokenError, claims_of, key_id

ROLE_CLAIMS = ("roles", "role", "groups", "group")
_SUBJECT_CHARACTERS = 200


class Tokens:
    """Tokens of one issuer for one audience."""

    def __init__(
        self, issuer: str, audience: str, keys: IssuerKeys, role_mapping: Iterable[RoleMapping] = ()
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._keys = keys
        self._mapping = {one.theirs: one.ours for one in role_mapping}

    async def run(self) -> None:
        """Fetch the keys before the first token comes; then stay until the gateway ends."""
        try:
            await self._keys.warm_up()
            await asyncio.Event().wait()
        finally:
            await self._keys.close()

    async def identify(self, token: bytes) -> Caller:
        """Whose token this is. Raises `TokenError`."""
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            raise TokenError("the token cannot be read") from None
        algorithm, kid = key_id(text)
        key = await self._keys.find(kid)
        if key is None:
            raise TokenError("the key of the token is not known")
        claims = claims_of(text, algorithm, key, self._issuer, self._audience)
        subject = claims.get("sub")
        shown = subject[:_SUBJECT_CHARACTERS] if isinstance(subject, str) and subject else "unknown"
        return Caller("token", shown, self.role_of(claims))

    def role_of(self, claims: Mapping[str, Any]) -> str:
        """The first known role of the first role claim there is; nobody in particular is a user."""
        for name in ROLE_CLAIMS:
            value = claims.get(name)
            if value is None:
                continue
            for one in value if isinstance(value, list) else [value]:
                role = self._meaning(one)
                if role is not None:
                    return role
            return USER
        return USER

    def _meaning(self, role: object) -> str | None:
        if not isinstance(role, str):
            return None
        if self._mapping:
            return self._mapping.get(role)
        plain = role.lower()
        return plain if plain in (ADMIN, USER) else None


def looks_like_token(credential: bytes) -> bool:
    """Two dots make a credential a token, which is then not tried as a key."""
    return credential.count(b".") == 2
