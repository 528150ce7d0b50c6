"""Small specifications written as one text: worker URLs, model aliases, tenant and control-plane keys.

Each class has `parse()`, which raises `ValueError` with a sentence that never shows a secret, and a
`str()` that `parse()` reads back to an equal value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNBUILT_SCHEMES = {"grpc": "gRPC", "grpcs": "gRPC", "ipc": "ZMQ"}
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
_PORT = re.compile(r"[0-9]{1,5}")
# RFC 3986 path characters without the percent sign, and complete percent escapes.
_PATH = re.compile(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")


@dataclass(frozen=True, slots=True)
class WorkerUrl:
    """Where a worker listens. `path` is the prefix of all its routes: empty or `/x`, no slash at the end."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> WorkerUrl:
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in _DEFAULT_PORTS:
            raise ValueError(_scheme_problem(scheme))
        if "?" in rest or "#" in rest:
            raise ValueError("a worker URL has no query and no fragment")
        authority, slash, path = rest.partition("/")
        if "@" in authority:
            raise ValueError("a worker URL has no credentials; set an API key instead")
        host, port = _split_authority(authority, _DEFAULT_PORTS[scheme])
        path = (slash + path).rstrip("/")
        if not _PATH.fullmatch(path):
            raise ValueError(f"{path!r} is not a path a URL can have")
        return cls(scheme, host, port, path)

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Value of the `Host` header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def base(self) -> str:
        """The one canonical text of this worker, equal for every accepted spelling."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def __str__(self) -> str:
        return self.base


@dataclass(frozen=True, slots=True)
class PrefillUrl:
    """`URL [PORT|none]`: a prefill worker, and the port where SGLang hands KV caches over."""

    url: WorkerUrl
    bootstrap_port: int | None = None

    @classmethod
    def parse(cls, text: str) -> PrefillUrl:
        url, *ports = text.split()
        if len(ports) > 1:
            raise ValueError("a prefill worker is written URL, or URL and its bootstrap port")
        port = ports[0].lower() if ports else "none"
        if port == "none":
            return cls(WorkerUrl.parse(url))
        if not _PORT.fullmatch(port) or int(port) > 65535:
            raise ValueError(f"{port!r} is not a bootstrap port; give a number up to 65535, or none")
        return cls(WorkerUrl.parse(url), int(port))

    @staticmethod
    def begins(word: str) -> bool:
        return "://" in word

    def __str__(self) -> str:
        return f"{self.url} {'none' if self.bootstrap_port is None else self.bootstrap_port}"


def _scheme_problem(scheme: str) -> str:
    if scheme in _UNBUILT_SCHEMES:
        return f"{_UNBUILT_SCHEMES[scheme]} workers are not built yet; give an http:// or https:// URL"
    return "a worker URL begins with http:// or https://, in lower case"


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    if authority.startswith("["):
        inside, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{authority!r} is not an IPv6 address in brackets with an optional port")
        return _ipv6(inside), _port(rest[1:], default_port) if rest else default_port
    if authority.count(":") > 1:
        raise ValueError(f"an IPv6 address needs brackets: [{authority}]")
    name, colon, port = authority.partition(":")
    return _name(name), _port(port, default_port) if colon else default_port


def _ipv6(text: str) -> str:
    try:
        if "%" in text:
            raise ValueError
        return ipaddress.IPv6Address(text).compressed
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv6 address") from None


def _name(text: str) -> str:
    name = text.lower()
    if not name:
        raise ValueError("the URL names no host")
    if len(name) > 253 or not _HOST_NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not a host name")
    if name.rstrip(".").rpartition(".")[2].isdigit():
        # A last label of digits can only be meant as an address (WHATWG URL, "ends in a number").
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise ValueError(f"{text!r} is not an IPv4 address") from None
    return name


def _port(text: str, default: int) -> int:
    if not text:
        return default
    if not _PORT.fullmatch(text) or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is not a port (1 to 65535)")
    return int(text)


@dataclass(frozen=True, slots=True)
class ModelAlias:
    """`alias=model`: requests for `alias` are served as `model`."""

    alias: str
    model: str

    @classmethod
    def parse(cls, text: str) -> ModelAlias:
        alias, _, model = text.partition("=")
        if not alias.strip() or not model.strip():
            raise ValueError("an alias is written alias=model")
        return cls(alias.strip(), model.strip())

    def __str__(self) -> str:
        return f"{self.alias}={self.model}"


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
SECRET_HEADERS = frozenset(
    {
        "authorization",
        "cookie",
        "proxy-authorization",
        "sec-websocket-protocol",
        "x-api-key",
        "x-goog-api-key",
        "x-smg-admin-authorization",
    }
)


@dataclass(frozen=True, slots=True)
class ContextHeader:
    """`header=key`: the header's value stands as `key` in the context of a request."""

    header: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ContextHeader:
        header, _, key = (part.strip() for part in text.partition("="))
        if not _TOKEN.fullmatch(header) or not key:
            raise ValueError("a context header is written header=key")
        if header.lower() in SECRET_HEADERS:
            raise ValueError(f"{header} holds a secret, which no log may show")
        return cls(header.lower(), key)

    def __str__(self) -> str:
        return f"{self.header}={self.key}"


def resolve_aliases(pairs: Iterable[ModelAlias]) -> tuple[ModelAlias, ...]:
    """Each alias with the model at the end of its chain. `ValueError` on a circle or a contradiction."""
    wanted: dict[str, str] = {}
    for pair in pairs:
        if wanted.setdefault(pair.alias, pair.model) != pair.model:
            models = f"{wanted[pair.alias]!r} and {pair.model!r}"
            raise ValueError(f"alias {pair.alias!r} stands for both {models}")
    known: dict[str, str] = {}
    for alias in wanted:
        _follow(alias, wanted, known)
    return tuple(ModelAlias(alias, known[alias]) for alias in wanted)


def _follow(alias: str, wanted: dict[str, str], known: dict[str, str]) -> None:
    """Adds to `known` the canonical model of every link of the chain that begins with `alias`."""
    chain: list[str] = []
    seen: set[str] = set()
    here = alias
    while here in wanted and here not in known:
        if here in seen:
            circle = " = ".join([*chain[chain.index(here) :], here])
            raise ValueError(f"the aliases run in a circle: {circle}")
        seen.add(here)
        chain.append(here)
        here = wanted[here]
    known.update(dict.fromkeys(chain, known.get(here, here)))


@dataclass(frozen=True, slots=True, repr=False)
class TenantKey:
    """`tenant_id:key`, one key of one tenant. The key may contain colons."""

    tenant: str
    key: str

    @classmethod
    def parse(cls, text: str) -> TenantKey:
        tenant, _, key = text.partition(":")
        if not tenant.strip() or not key.strip():
            raise ValueError("a tenant key is written tenant_id:key, both parts are needed")
        return cls(tenant.strip(), key.strip())

    def __str__(self) -> str:
        return f"{self.tenant}:{self.key}"

    def __repr__(self) -> str:
        return f"TenantKey({self.tenant!r}, '…')"


@dataclass(frozen=True, slots=True, repr=False)
class ControlPlaneKey:
    """`id:name:role:key`, a key for the admin routes. The key may contain colons."""

    id: str
    name: str
    role: str
    key: str

    ROLES = ("admin", "user")

    @classmethod
    def parse(cls, text: str) -> ControlPlaneKey:
        parts = text.split(":", 3)
        if len(parts) < 4 or not parts[0].strip() or not parts[3].strip():
            raise ValueError("a control-plane key is written id:name:role:key")
        role = parts[2].strip().lower()
        if role not in cls.ROLES:
            raise ValueError("the role of a control-plane key (its third part) is admin or user")
        return cls(parts[0].strip(), parts[1].strip(), role, parts[3].strip())

    def __str__(self) -> str:
        return f"{self.id}:{self.name}:{self.role}:{self.key}"

    def __repr__(self) -> str:
        return f"ControlPlaneKey({self.id!r}, {self.name!r}, {self.role!r}, '…')"
