"""Who calls a serving route: the tenant behind a bearer key, looked up in constant time, or, where no keys
are, the tenant that a trusted header names or the address that the caller has.

Keys are compared by keyed digests, so neither their number nor a shared beginning shows in the time
a refusal takes. Control-plane keys are unknown here: they open no serving route.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from hashlib import blake2b, sha256
from ipaddress import ip_address

from smg import errors

REALM = "data-plane"
MAX_HEADER_CHARACTERS = 200


class Tenant:
    """An identity for limits and metrics. `key` is how limit files name it; `name` is shown. `label`: what
    metrics, which anybody may read, call it, if not by its key."""

    __slots__ = ("key", "label", "name")

    def __init__(self, name: str, key: str, label: str | None = None) -> None:
        self.name = name
        self.key = key
        self.label = label or key

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
    """`tenant_keys`: pairs of tenant and key. With neither kind of key every caller is welcome; `header`
    then names its tenant (None: no header is trusted), or its address does, if `tells_strangers_apart`."""

    __slots__ = ("_header", "_keys", "_shared", "anonymous", "is_open", "tells_strangers_apart")

    def __init__(
        self,
        api_key: str | None,
        tenant_keys: Iterable[tuple[str, str]] = (),
        header: str | None = None,
        tells_strangers_apart: bool = False,
    ) -> None:
        self.anonymous = Tenant("anonymous", "anonymous")
        self._header = header.lower().encode() if header is not None else None
        self.tells_strangers_apart = tells_strangers_apart or header is not None
        self._shared: Tenant | None = None
        if api_key is not None:
            # A digest, since a tenant may have any name; not for everybody, who might guess the key by it.
            digest = sha256(api_key.encode()).hexdigest()
            self._shared = Tenant("shared", f"auth:{digest}", label="auth")
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

    def stranger(
        self, get: Callable[[bytes], bytes | None], find_address: Callable[[], str | None]
    ) -> Tenant:
        """The tenant of a caller without a key; `get` finds a header by its lower-case name. Raises 400."""
        value = get(self._header) if self._header is not None else None
        if value and value.isascii():
            name = value.decode("ascii").strip()
            if len(name) > MAX_HEADER_CHARACTERS:
                assert self._header is not None
                raise errors.invalid_tenant_header(self._header.decode(), MAX_HEADER_CHARACTERS)
            if name:
                return Tenant(name, f"header:{name}")
        address = find_address()
        if address is None:
            return self.anonymous
        key = f"ip:{plain_address(address)}"
        return Tenant(key, key)

    def is_gateway_key(self, key: bytes) -> bool:
        """Is it a key of this gateway, which no provider may see?"""
        return self._keys.find(key) is not None

    def is_shared_key(self, key: bytes) -> bool:
        """Is it the key of `--api-key`, which opens admin routes as well?"""
        return self._shared is not None and self._keys.find(key) is self._shared


def plain_address(address: str) -> str:
    """An address in its usual spelling; IPv4 in IPv6 is IPv4. Raises `ValueError`."""
    if ":" not in address:
        return address
    parsed = ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)


def bearer_key(authorization: bytes | None) -> bytes | None:
    """The key of a bearer header, blanks around it removed; None for another scheme or no key."""
    if authorization is None:
        return None
    header = authorization.lstrip(b" \t")
    if header[:6].lower() != b"bearer" or header[6:7] not in (b" ", b"\t"):
        return None
    return header[7:].strip(b" \t") or None
