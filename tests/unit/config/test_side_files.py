"""The files of the scheduler and of tenants' limits: what is refused, in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from smg.config.side_files import Classes, FileError, read_scheduler, read_tenants

CLASS = (
    "reserved_floor: 0, queue_size: 1, queue_timeout_secs: 1, starvation_threshold_secs: 1, can_preempt: true"
)
SCOPE = "tokens_per_minute: 1, requests_per_minute: 1"
DEFAULT = f"default_policy: {{{SCOPE}}}\n"


def rules(*matchers: str) -> str:
    entries = ", ".join(f"{{rule_id: {one}, {SCOPE}}}" for one in matchers)
    return f"default_policy: {{{SCOPE}, model_rules: [{entries}]}}"


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("{{{", "is no YAML"),
        ("\0", "is no YAML"),
        ("[" * 3000, "is no YAML"),
        ("- 1", "Expected `object"),
        ("class: {}", "unknown field `class`"),
        ("classes: {urgent: 1}", "unknown field `urgent` - at `$.classes`"),
        ("classes: {bulk: {}}", "missing required field `reserved_floor` - at `$.classes.bulk`"),
        (f"classes: {{bulk: {{{CLASS}, x: 1}}}}", "unknown field `x` - at `$.classes.bulk`"),
        (f"classes: {{bulk: {{{CLASS}, reserved_per_slot: -1}}}}", "at `$.classes.bulk.reserved_per_slot`"),
        (
            f"classes: {{bulk: {{{CLASS}, reserved_per_slot: .nan}}}}",
            "at `$.classes.bulk.reserved_per_slot`",
        ),
        (f"classes: {{bulk: {{{CLASS}, reserved_per_slot: .inf}}}}", "at `$.classes.bulk.reserved_per_slot`"),
        (
            f"classes: {{bulk: {{{CLASS.replace('floor: 0', 'floor: -1')}}}}}",
            "at `$.classes.bulk.reserved_floor`",
        ),
        (f"classes: {{bulk: {{{CLASS.replace('secs: 1', 'secs: 0')}}}}}", "Expected `int` >= 1"),
        (f"classes: {{bulk: {{{CLASS.replace('true', 'maybe')}}}}}", "at `$.classes.bulk.can_preempt`"),
        ("tenant_policies: {a: {max_class: root}}", "Invalid enum value 'root'"),
        ("tenant_policies: {a: {}}", "missing required field `max_class`"),
    ],
)
def test_schedulers_that_are_refused(tmp_path: Path, text: str, piece: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(FileError, match=r"s\.yaml") as caught:
        read_scheduler(str(path))
    assert piece in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_scheduler_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    for text in ("", "classes: {}", "tenant_policies: {}"):
        path.write_text(text)
        assert read_scheduler(str(path)) == read_scheduler(None)
    path.write_text(f'classes: {{bulk: {{{CLASS}}}}}\ntenant_policies: {{"header:a": {{max_class: bulk}}}}')
    found = read_scheduler(str(path))
    assert (found.classes.bulk.queue_size, found.classes.system) == (1, Classes().system)
    assert found.tenant_policies["header:a"].max_class == "bulk"


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("{{{", "is no YAML"),
        ("", "Expected `object`, got `null`"),
        ("tenants: []", "missing required field `default_policy`"),
        (DEFAULT + "tenant: []", "unknown field `tenant`"),
        ("default_policy: {tenant_key: anonymous, " + SCOPE + "}", "unknown field `tenant_key`"),
        (DEFAULT.replace("1", "0", 1), "Expected `int` >= 1"),
        (DEFAULT.replace("1", "-5", 1), "Expected `int` >= 1"),
        (DEFAULT.replace("1", "1.5", 1), "Expected `int`, got `float`"),
        (DEFAULT + f"tenants: [{{tenant_key: red, {SCOPE}}}]", "tenants[0].tenant_key must be auth:"),
        (DEFAULT + f"tenants: [{{tenant_key: 'auth:', {SCOPE}}}]", "tenants[0].tenant_key must be auth:"),
        (DEFAULT + f"tenants: [{{tenant_key: 'ip:nowhere', {SCOPE}}}]", "tenants[0].tenant_key 'ip:nowhere'"),
        (DEFAULT + f"tenants: [{{{SCOPE}}}]", "missing required field `tenant_key` - at `$.tenants[0]`"),
        (DEFAULT + f"tenants: [{{tenant_key: 'header:a', {SCOPE}}}]", "needs --trust-tenant-header"),
        (
            DEFAULT + f"tenants: [{{tenant_key: 'auth:a', {SCOPE}}}, {{tenant_key: 'auth:a', {SCOPE}}}]",
            "tenants[1].tenant_key 'auth:a' is that of tenants[0] too",
        ),
        (
            DEFAULT + f"tenants: [{{tenant_key: 'ip:::1', {SCOPE}}}, {{tenant_key: 'ip:0::1', {SCOPE}}}]",
            "tenants[1].tenant_key 'ip:0::1' is that of tenants[0] too",
        ),
        (rules("a b, matcher: {type: exact, value: m}"), "rule_id"),
        (rules("a, matcher: {type: suffix, value: m}"), "Invalid enum value 'suffix'"),
        (rules("a, matcher: {type: exact, value: ''}"), "length >= 1"),
        (
            rules("a, matcher: {type: exact, value: m}", "a, matcher: {type: prefix, value: m}"),
            "default_policy.model_rules[1].rule_id 'a' is used twice",
        ),
        (
            rules("a, matcher: {type: exact, value: m}", "b, matcher: {type: exact, value: m}"),
            "another rule has the exact value 'm' too",
        ),
    ],
)
def test_tenants_that_are_refused(tmp_path: Path, text: str, piece: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(FileError, match=r"t\.yaml") as caught:
        read_tenants(str(path), trusts_header=False)
    assert piece in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(FileError, match="cannot be read"):
            read_scheduler(str(path))


def test_a_header_that_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(DEFAULT + f"tenants: [{{tenant_key: 'header:a', {SCOPE}}}]")
    assert read_tenants(str(path), trusts_header=True).tenants[0].tenant_key == "header:a"
