"""The dashboard and the alert rules ask for metrics and labels that exist, in the way their kind allows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from smg.telemetry.families import COUNTER, FAMILIES, GAUGE, HISTOGRAM

FOLDER = Path(__file__).resolve().parent.parent / "deploy/grafana"
BOARD = json.loads((FOLDER / "smg.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]

KINDS = {family.name: family.kind for family in FAMILIES}
LABELS = {family.name: set(family.labels) for family in FAMILIES}
COMMON = {"job", "instance"}
NAME = re.compile(r"\b(?:smg|process)_[a-z0-9_]+")
FUNCTIONS = re.compile(r"\b(rate|increase)\($")


def expressions() -> list[str]:
    found = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
    found += [one["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"]
    found += [one["expr"] for one in BOARD["annotations"]["list"]]
    return [*found, *(rule["expr"] for rule in RULES)]


def family_of(name: str) -> str:
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if KINDS.get(base) == HISTOGRAM else name


@pytest.mark.parametrize("text", sorted(set(expressions())))
def test_an_expression_fits_the_table(text: str) -> None:
    assert text.count("(") == text.count(")") and text.count("{") == text.count("}")
    labels: set[str] = set()
    for found in NAME.finditer(text):
        name, family = found[0], family_of(found[0])
        assert family in KINDS, name
        assert (name != family) == (KINDS[family] == HISTOGRAM), name
        is_rate = FUNCTIONS.search(text[: found.start()]) is not None
        assert is_rate == (KINDS[family] in (COUNTER, HISTOGRAM)), f"{name} in {text}"
        labels |= LABELS[family] | ({"le"} if name.endswith("_bucket") else set())
        selector = re.match(r"\{([^}]*)\}", text[found.end() :])
        if selector:
            asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector[1]))
            assert asked <= LABELS[family] | COMMON, asked
    for group in re.findall(r"\bby \(([^)]*)\)", text):
        assert {label.strip() for label in group.split(",")} <= labels | COMMON


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong(rule: dict[str, object]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"]


def test_legends_name_labels_that_are_there() -> None:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            labels = COMMON.union(*(LABELS[family_of(name)] for name in NAME.findall(target["expr"])))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]


def test_panels_do_not_overlap_and_have_a_title() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert panel["title"] and not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_every_kind_is_known() -> None:
    assert set(KINDS.values()) == {COUNTER, GAUGE, HISTOGRAM}
