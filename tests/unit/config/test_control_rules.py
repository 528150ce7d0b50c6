"""Rules of tokens on admin routes and of discovery."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from smg.config.admin import AdminAccess, RoleMapping
from smg.config.disaggregation import Disaggregation
from smg.config.discovery import Discovery, LabelPair
from smg.config.load import check
from smg.config.model import Config

PAIR = (LabelPair("app", "x"),)
PAIRS = Disaggregation(pd_disaggregation=True)
TOKENS = {"jwt_issuer": "https://id.example", "jwt_audience": "a"}


@pytest.mark.parametrize(
    "options",
    [
        TOKENS,
        {**TOKENS, "jwt_issuer": "urn:issuer", "jwt_jwks_uri": "http://id.example/keys"},
        {**TOKENS, "jwt_role_mapping": (RoleMapping("a", "admin"),)},
        {"control_plane_audit_enabled": True},
    ],
)
def test_tokens(options: dict[str, Any]) -> None:
    assert check(Config(admin=AdminAccess(**options))) == []


@pytest.mark.parametrize(
    ("options", "piece"),
    [
        ({"jwt_issuer": "https://a"}, "go together"),
        ({"jwt_audience": "a"}, "go together"),
        ({"jwt_jwks_uri": "https://a"}, "--jwt-jwks-uri needs"),
        ({"jwt_role_mapping": (RoleMapping("a", "admin"),)}, "--jwt-role-mapping needs"),
        ({**TOKENS, "jwt_jwks_uri": "file:///keys"}, "--jwt-jwks-uri: is no http"),
        ({**TOKENS, "jwt_jwks_uri": "https://[x"}, "--jwt-jwks-uri: is no http"),
        ({**TOKENS, "jwt_issuer": "urn:issuer"}, "--jwt-jwks-uri has to say"),
    ],
)
def test_wrong_tokens(options: dict[str, Any], piece: str) -> None:
    (problem,) = check(Config(admin=AdminAccess(**options)))
    assert piece in problem


@pytest.mark.parametrize(
    "config",
    [
        Config(discovery=Discovery(discovery_provider="file", discovery_file="/absent")),
        Config(discovery=Discovery(service_discovery=True, selector=PAIR)),
        Config(discovery=Discovery(discovery_provider="kubernetes", selector=PAIR)),
        Config(
            discovery=Discovery(service_discovery=True, prefill_selector=PAIR, decode_selector=PAIR),
            disaggregation=PAIRS,
        ),
        Config(discovery=Discovery(selector=PAIR)),
    ],
)
def test_discovery(config: Config) -> None:
    assert check(config) == []


@pytest.mark.parametrize(
    ("config", "piece"),
    [
        (
            Config(
                discovery=Discovery(service_discovery=True, discovery_provider="kubernetes", selector=PAIR)
            ),
            "exclude each other",
        ),
        (Config(discovery=Discovery(discovery_provider="file")), "needs --discovery-file"),
        (Config(discovery=Discovery(discovery_file="/x")), "--discovery-file needs"),
        (
            Config(discovery=Discovery(discovery_check_interval_secs=5)),
            "--discovery-check-interval-secs needs",
        ),
        (Config(discovery=Discovery(service_discovery=True)), "needs --selector"),
        (
            Config(discovery=Discovery(service_discovery=True, selector=PAIR), disaggregation=PAIRS),
            "needs --prefill-selector and --decode-selector",
        ),
        (
            Config(discovery=Discovery(service_discovery=True, selector=PAIR, encode_selector=PAIR)),
            "--encode-selector",
        ),
    ],
)
def test_wrong_discovery(config: Config, piece: str) -> None:
    (problem,) = check(config)
    assert piece in problem


@pytest.mark.parametrize(
    ("config", "extra"),
    [
        (Config(admin=AdminAccess(**TOKENS)), "smg[oidc]"),
        (Config(discovery=Discovery(service_discovery=True, selector=PAIR)), "smg[kubernetes]"),
    ],
)
def test_packages_that_are_missing(config: Config, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (problem,) = check(config)
    assert extra in problem
