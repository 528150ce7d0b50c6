"""Who calls an admin route, as the guard found out and the audit log writes down."""

from __future__ import annotations

from dataclasses import dataclass

ADMIN = "admin"
USER = "user"


@dataclass(frozen=True, slots=True)
class Caller:
    """`method`: `key`, `token`, `shared key` or `none`. `id`: of the key, or the token's `sub`; never the
    credential."""

    method: str
    id: str
    role: str
    name: str = ""


NOBODY = Caller("none", "unauthenticated", "")
ANYBODY = Caller("none", "anonymous", ADMIN)
SHARED = Caller("shared key", "shared", ADMIN)
