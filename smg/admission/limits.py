"""Which budgets a request is paid from: those of its tenant, and of the one model rule that fits best."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address

from smg.admission.identity import Tenant, plain_address
from smg.config.side_files import DefaultScope, ModelRule, TenantsFile

_HOST_BITS = 64
MAX_FOUND = 4096
"""Answers that are remembered; then all are forgotten and found again."""
MAX_NAME = 256
"""Characters of a model's name, which anybody can send, up to which its answer is remembered."""


class Limit:
    """One budget a minute. `key` tells it from all others; `is_listed`: it stands in the file by its name,
    so that there is a fixed number of them."""

    __slots__ = ("is_listed", "key", "requests", "tokens")

    def __init__(self, key: str, tokens: int, requests: int, *, is_listed: bool) -> None:
        self.key = key
        self.tokens = tokens
        self.requests = requests
        self.is_listed = is_listed


class Limits:
    """The limits of a file, by tenant and model."""

    def __init__(self, file: TenantsFile) -> None:
        self._found: dict[tuple[str, str | None], tuple[Limit, ...]] = {}
        self._listed = {_usual(scope.tenant_key): _Scope(scope) for scope in file.tenants}
        self._default = _Scope(file.default_policy)

    def find(self, tenant: Tenant, model: str | None) -> tuple[Limit, ...]:
        """The tenant's own limit, and the rule's that fits the model, if any."""
        found = self._found.get((tenant.key, model))
        if found is None:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            found = self._look_up(tenant.key, model)
            if model is None or len(model) <= MAX_NAME:
                self._found[tenant.key, model] = found
        return found

    def _look_up(self, key: str, model: str | None) -> tuple[Limit, ...]:
        scope = self._listed.get(key)
        if scope is not None:
            return scope.limits(key, model, is_listed=True)
        return self._default.limits(_network(key), model, is_listed=False)


class _Scope:
    def __init__(self, scope: DefaultScope) -> None:
        self._tokens = scope.tokens_per_minute
        self._requests = scope.requests_per_minute
        self._exact: dict[str, ModelRule] = {}
        self._prefixes: dict[str, ModelRule] = {}
        for rule in scope.model_rules:
            table = self._exact if rule.matcher.type == "exact" else self._prefixes
            table[rule.matcher.value] = rule
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def limits(self, key: str, model: str | None, *, is_listed: bool) -> tuple[Limit, ...]:
        own = Limit(key, self._tokens, self._requests, is_listed=is_listed)
        rule = self._rule(model) if model is not None else None
        if rule is None:
            return (own,)
        # No header or key has a line end in it.
        rule_key = f"{key}\n{rule.rule_id}"
        return own, Limit(rule_key, rule.tokens_per_minute, rule.requests_per_minute, is_listed=is_listed)

    def _rule(self, model: str) -> ModelRule | None:
        """An exact one before a prefix, a longer prefix before a shorter one."""
        rule = self._exact.get(model)
        if rule is not None:
            return rule
        for length in self._lengths:
            rule = self._prefixes.get(model[:length])
            if rule is not None:
                return rule
        return None


def _usual(key: str) -> str:
    """A listed key as `Identity` writes it."""
    if key.startswith("ip:"):
        return f"ip:{plain_address(key[3:])}"
    return key


def _network(key: str) -> str:
    """Who has one IPv6 address has all of its network: they share a budget, unless the file lists it."""
    if not key.startswith("ip:") or ":" not in key[3:]:
        return key
    address = ip_address(key[3:])
    if not isinstance(address, IPv6Address) or address.is_loopback:
        return key
    return f"ip:{IPv6Network((address, _HOST_BITS), strict=False)}"
