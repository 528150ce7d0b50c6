"""Which limits a tenant's request is under."""

from __future__ import annotations

import sys

import pytest

from smg.admission.identity import Tenant
from smg.admission.limits import Limits
from smg.config.side_files import DefaultScope, Matcher, ModelRule, TenantScope, TenantsFile


def rule(rule_id: str, kind: str, value: str, tokens: int = 1) -> ModelRule:
    matcher = Matcher(kind, value)  # type: ignore[arg-type]
    return ModelRule(rule_id=rule_id, matcher=matcher, tokens_per_minute=tokens, requests_per_minute=2)


RULES = (rule("p", "prefix", "llama"), rule("pp", "prefix", "llama-3"), rule("e", "exact", "llama-3-8b"))
LIMITS = Limits(
    TenantsFile(
        default_policy=DefaultScope(tokens_per_minute=10, requests_per_minute=11, model_rules=RULES[:1]),
        tenants=(
            TenantScope(
                tenant_key="auth:red", tokens_per_minute=20, requests_per_minute=21, model_rules=RULES
            ),
            TenantScope(tenant_key="ip:2001:DB8::0001", tokens_per_minute=30, requests_per_minute=31),
        ),
    )
)


def keys(tenant: str, model: str | None = "m") -> list[str]:
    return [limit.key for limit in LIMITS.find(Tenant(tenant, tenant), model)]


@pytest.mark.parametrize(
    ("model", "fitting"),
    [
        ("llama-3-8b", ["auth:red\ne"]),
        ("llama-3-8b-x", ["auth:red\npp"]),
        ("llama-2", ["auth:red\np"]),
        ("llam", []),
        ("x-llama", []),
        (None, []),
    ],
)
def test_one_rule_at_most(model: str | None, fitting: list[str]) -> None:
    assert keys("auth:red", model) == ["auth:red", *fitting]


def test_listed_and_others() -> None:
    [own] = LIMITS.find(Tenant("red", "auth:red"), "m")
    assert (own.tokens, own.requests, own.is_listed) == (20, 21, True)
    own, of_rule = LIMITS.find(Tenant("blue", "auth:blue"), "llama-3-8b")
    assert (own.key, own.tokens, own.requests, own.is_listed) == ("auth:blue", 10, 11, False)
    assert (of_rule.key, of_rule.tokens, of_rule.is_listed) == ("auth:blue\np", 1, False)


def test_long_names_of_models_are_not_remembered() -> None:
    limits = Limits(TenantsFile(default_policy=DefaultScope(tokens_per_minute=1, requests_per_minute=1)))
    tenant, name = Tenant("red", "auth:red"), "m" * 1_000_000
    count = sys.getrefcount(name)
    assert limits.find(tenant, name) is not limits.find(tenant, name)
    assert sys.getrefcount(name) == count
    assert limits.find(tenant, "m") is limits.find(tenant, "m")


def test_addresses() -> None:
    assert keys("ip:10.0.0.1") == ["ip:10.0.0.1"]
    assert keys("ip:2001:db8::1") == ["ip:2001:db8::1"]  # listed by itself
    assert keys("ip:2001:db8::2") == keys("ip:2001:db8::3") == ["ip:2001:db8::/64"]
    assert keys("ip:::1") == ["ip:::1"]
    assert keys("header:a:b") == ["header:a:b"]
    assert keys("anonymous") == ["anonymous"]
