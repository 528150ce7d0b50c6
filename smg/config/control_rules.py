"""Rules of options of the control plane: tokens on admin routes, discovery, state that is shared."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from smg.config.discovery import FILE, KUBERNETES
from smg.config.model import Config


def _tokens(config: Config) -> Iterator[str]:
    admin = config.admin
    if (admin.jwt_issuer is None) != (admin.jwt_audience is None):
        yield "--jwt-issuer and --jwt-audience go together; only one of them is given"
    if admin.jwt_issuer is None and (admin.jwt_jwks_uri or admin.jwt_role_mapping):
        flag = "--jwt-jwks-uri" if admin.jwt_jwks_uri else "--jwt-role-mapping"
        yield f"{flag} needs --jwt-issuer and --jwt-audience"
    if admin.jwt_jwks_uri is not None and not _is_web_url(admin.jwt_jwks_uri):
        yield "--jwt-jwks-uri: is no http:// or https:// URL"
    if admin.jwt_issuer is not None:
        if admin.jwt_jwks_uri is None and not _is_web_url(admin.jwt_issuer):
            yield "--jwt-issuer is no http:// or https:// URL; --jwt-jwks-uri has to say where its keys are"
        yield from _extra("--jwt-issuer", "jwt", "oidc")


def _discovery(config: Config) -> Iterator[str]:
    options = config.discovery
    if options.service_discovery and options.discovery_provider is not None:
        yield "--service-discovery and --discovery-provider exclude each other; give one of them"
    if options.provider == FILE:
        if options.discovery_file is None:
            yield "--discovery-provider file needs --discovery-file"
        return
    if options.discovery_file is not None:
        yield "--discovery-file needs --discovery-provider file"
    if options.discovery_check_interval_secs is not None:
        yield "--discovery-check-interval-secs needs --discovery-provider file"
    if options.provider == KUBERNETES:
        yield from _pods(config)
        yield from _extra("service discovery in Kubernetes", "kubernetes_asyncio", "kubernetes")


def _pods(config: Config) -> Iterator[str]:
    options = config.discovery
    if config.disaggregation.pd_disaggregation:
        if not options.prefill_selector or not options.decode_selector:
            yield "service discovery of prefill/decode pairs needs --prefill-selector and --decode-selector"
    elif not options.selector:
        yield "service discovery in Kubernetes needs --selector"
    if options.encode_selector:
        yield "--encode-selector: encode workers are not built yet; leave the option out"


def _state(config: Config) -> Iterator[str]:
    url = config.state.state_redis_url
    if url is None:
        return
    if not url.startswith(("redis://", "rediss://", "unix://")):
        yield "--state-redis-url begins with redis://, rediss:// or unix://"
    elif not _has_place(url):
        yield "--state-redis-url names no host, or a port that is none"
    yield from _extra("--state-redis-url", "redis", "redis")


def _has_place(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_web_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _extra(what: str, package: str, extra: str) -> Iterator[str]:
    if importlib.util.find_spec(package) is None:
        yield f"{what} needs the package {package}, which pip install 'smg[{extra}]' installs"


CONTROL_RULES: tuple[tuple[frozenset[str], Callable[[Config], Iterator[str]]], ...] = (
    (frozenset({"jwt_issuer", "jwt_audience", "jwt_jwks_uri", "jwt_role_mapping"}), _tokens),
    (
        frozenset(
            {
                "service_discovery",
                "discovery_provider",
                "discovery_file",
                "discovery_check_interval_secs",
                "selector",
                "prefill_selector",
                "decode_selector",
                "encode_selector",
                "pd_disaggregation",
            }
        ),
        _discovery,
    ),
    (frozenset({"state_redis_url"}), _state),
)
