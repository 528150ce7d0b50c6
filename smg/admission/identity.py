"""Who calls a serving route: the tenant behind a bearer key, looked up in constant time.

Keys are compared by keyed digests, so neither their number nor a shared beginning shows in the time
a refusal takes. Control-plane keys are unknown here: they open no serving route.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b

from smg import errors

REALM = "data-plane"


class Tenant:
    """An identity for limits and metrics. `key` is how limit files name it, None for nobody in particular."""

    __slots__ = ("key", "name")

    def __init__(self, name: str, key: str | None) -> None:
        self.name = name
        self.key = key

    def __repr__(self) -> str:
        return f"Tenant({self.name!r})"


class Keys:
    """A set of secret keys, each standing for something; the keys themselves are not kept."""

    __slots__ = ("_digests", "_secret")

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        self._secret = os.urandom(32)
        self._digests = {self._digest(key.encode()): meaning for key, meaning in pairs}

    def __len__(self) -> int:
        return len(self._digests)

    def find(self, key: bytes) -> object | None:
        return self._digests.get(self._digest(key))

    def _digest(self, key: bytes) -> bytes:
        return blake2b(key, key=self._secret, digest_size=16).digest()


class Identity:
    """`tenant_keys`: pairs of tenant and key. With neither kind of key every caller is welcome."""

    __slots__ = ("_keys", "_shared", "anonymous", "is_open")

    def __init__(self, api_key: str | None, tenant_keys: Iterable[tuple[str, str]] = ()) -> None:
        self.anonymous = Tenant("anonymous", None)
        self._shared = Tenant("shared", "auth:shared") if api_key is not None else None
        tenants: dict[str, Tenant] = {}
        pairs: list[tuple[str, object]] = []
        for name, key in tenant_keys:
            pairs.append((key, tenants.setdefault(name, Tenant(name, f"auth:{name}"))))
        if api_key is not None:
            pairs.append((api_key, self._shared))
        self._keys = Keys(pairs)
        self.is_open = not pairs

    @property
    def has_shared_key(self) -> bool:
        return self._shared is not None

    def identify(self, authorization: bytes | None) -> Tenant:
        """The tenant of the first `Authorization` header; raises 401 when it shows no known key."""
        if self.is_open:
            return self.anonymous
        key = bearer_key(authorization)
        if key is None:
            raise errors.unauthorized(REALM, wrong_key=False)
        tenant = self._keys.find(key)
        if not isinstance(tenant, Tenant):
            raise errors.unauthorized(REALM, wrong_key=True)
        return tenant

    def is_gateway_key(self, key: bytes) -> bool:
        """Is it a key of this gateway, which no provider may see?"""
        return self._keys.find(key) is not None

    def is_shared_key(self, key: bytes) -> bool:
        """Is it the key of `--api-key`, which opens admin routes as well?"""
        return self._shared is not None and self._keys.find(key) is self._shared


def bearer_key(authorization: bytes | None) -> bytes | None:
    """The key of a bearer header, blanks around it removed; None for another scheme or no key."""
    if authorization is None:
        return None
    header = authorization.lstrip(b" \t")
    if header[:6].lower() != b"bearer" or header[6:7] not in (b" ", b"\t"):
        return None
    return header[7:].strip(b" \t") or None
