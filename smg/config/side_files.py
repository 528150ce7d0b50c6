"""The YAML files of the priority scheduler and of tenants' limits: their fields, and one sentence on what is
wrong with a file that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

_COUNT_MOST = 2**31 - 1
_TENANT_KEY = re.compile(r"(auth|header|ip):.+|anonymous", re.DOTALL)

Count = Annotated[int, msgspec.Meta(ge=0, le=_COUNT_MOST)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=_COUNT_MOST)]
ClassName = Literal["system", "interactive", "default", "bulk"]


class FileError(ValueError):
    """What is wrong with a side file, in one sentence that names the file."""


class ClassOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One class: slots kept free for it and what is above it, its queue, and whom it may displace."""

    reserved_floor: Count
    queue_size: Count
    queue_timeout_secs: Positive
    starvation_threshold_secs: Positive
    can_preempt: bool
    reserved_per_slot: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0


class Classes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The four classes, the highest first; those a file leaves out keep these numbers."""

    system: ClassOptions = ClassOptions(
        reserved_floor=32,
        queue_size=64,
        queue_timeout_secs=30,
        starvation_threshold_secs=5,
        can_preempt=True,
    )
    interactive: ClassOptions = ClassOptions(
        reserved_floor=128,
        reserved_per_slot=0.25,
        queue_size=256,
        queue_timeout_secs=30,
        starvation_threshold_secs=5,
        can_preempt=True,
    )
    default: ClassOptions = ClassOptions(
        reserved_floor=0,
        reserved_per_slot=0.10,
        queue_size=512,
        queue_timeout_secs=60,
        starvation_threshold_secs=30,
        can_preempt=False,
    )
    bulk: ClassOptions = ClassOptions(
        reserved_floor=0,
        queue_size=1024,
        queue_timeout_secs=300,
        starvation_threshold_secs=120,
        can_preempt=False,
    )


class TenantPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`max_class`: the highest class the tenant's requests may have."""

    max_class: ClassName


class SchedulerFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tenant_policies` by tenant key."""

    classes: Classes = Classes()
    tenant_policies: dict[str, TenantPolicy] = msgspec.field(default_factory=dict)


class Matcher(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which models a rule is for."""

    type: Literal["exact", "prefix"]
    value: Annotated[str, msgspec.Meta(min_length=1)]


class ModelRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further budget for a tenant's requests to some models."""

    rule_id: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]+$")]
    matcher: Matcher
    tokens_per_minute: Positive
    requests_per_minute: Positive


class DefaultScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each tenant that is not listed may use a minute."""

    tokens_per_minute: Positive
    requests_per_minute: Positive
    model_rules: tuple[ModelRule, ...] = ()


class TenantScope(DefaultScope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one tenant may use a minute."""

    tenant_key: str


class TenantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_policy: DefaultScope
    tenants: tuple[TenantScope, ...] = ()


def read_scheduler(path: str | None) -> SchedulerFile:
    """The scheduler's file; without one, or with an empty one, the defaults. Raises `FileError`."""
    if path is None:
        return SchedulerFile()
    found: SchedulerFile | None = _read(path, SchedulerFile | None)
    return found or SchedulerFile()


def read_tenants(path: str, trusts_header: bool) -> TenantsFile:
    """The file of tenants' limits. Raises `FileError`."""
    found: TenantsFile = _read(path, TenantsFile)
    problem = next(_tenant_problems(found, trusts_header), None)
    if problem is not None:
        raise FileError(f"{path}: {problem}")
    return found


def _tenant_problems(found: TenantsFile, trusts_header: bool) -> Iterator[str]:
    yield from _rule_problems("default_policy", found.default_policy)
    seen: dict[str, int] = {}
    for number, scope in enumerate(found.tenants):
        where, key = f"tenants[{number}]", scope.tenant_key
        if not _TENANT_KEY.fullmatch(key):
            yield f"{where}.tenant_key must be auth:…, header:…, ip:… or anonymous, not {key!r}"
        if key.startswith("header:") and not trusts_header:
            yield f"{where}.tenant_key {key!r} needs --trust-tenant-header"
        usual = _usual(key)
        if usual is None:
            yield f"{where}.tenant_key {key!r} holds no IP address"
        elif usual in seen:
            yield f"{where}.tenant_key {key!r} is that of tenants[{seen[usual]}] too"
        seen[usual or key] = number
        yield from _rule_problems(where, scope)


def _usual(key: str) -> str | None:
    """A key as requests have it: addresses in their usual spelling; None: that is no address."""
    if not key.startswith("ip:"):
        return key
    try:
        return f"ip:{ip_address(key[3:])}"
    except ValueError:
        return None


def _rule_problems(where: str, scope: DefaultScope) -> Iterator[str]:
    ids: set[str] = set()
    matchers: set[tuple[str, str]] = set()
    for number, rule in enumerate(scope.model_rules):
        at = f"{where}.model_rules[{number}]"
        if rule.rule_id in ids:
            yield f"{at}.rule_id {rule.rule_id!r} is used twice"
        matcher = (rule.matcher.type, rule.matcher.value)
        if matcher in matchers:
            yield f"{at}.matcher: another rule has the {matcher[0]} value {matcher[1]!r} too"
        ids.add(rule.rule_id)
        matchers.add(matcher)


def _read(path: str, kind: object) -> Any:
    # Only who has such a file pays for the YAML parser.
    import msgspec.yaml

    try:
        return msgspec.yaml.decode(Path(path).read_bytes(), type=kind)
    except OSError as problem:
        raise FileError(f"{path} cannot be read: {problem.strerror}") from None
    except msgspec.ValidationError as problem:
        raise FileError(f"{path}: {problem}") from None
    except (msgspec.MsgspecError, TypeError, RecursionError) as problem:
        raise FileError(f"{path} is no YAML: {' '.join(str(problem).split())}") from None
