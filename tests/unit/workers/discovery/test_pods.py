"""When a pod counts, and what its worker is like."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from smg.config.discovery import Discovery, LabelPair, model_id_source
from smg.workers.discovery.pods import Pod, PodReader, Role, Roles


def pod(**changes: Any) -> Pod:
    """A pod as the API server tells of it; a change of None leaves a member out."""
    content: dict[str, Any] = {
        "metadata": {
            "name": "p1",
            "namespace": "ns",
            "uid": "u1",
            "resourceVersion": "5",
            "labels": {"app": "x", "model": "of-label"},
            "annotations": {
                "model": "of-annotation",
                "sglang.ai/bootstrap-port": "8998",
                "smg.ai/kv-connector": "Nixl",
                "smg.ai/kv-engine-id": "e1",
            },
        },
        "spec": {"containers": []},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
        },
    }
    for path, value in changes.items():
        section, _, member = path.partition("__")
        content[section] = {**content[section], member: value}
        if value is None:
            del content[section][member]
    return msgspec.convert(content, Pod)


def test_a_ready_pod_counts() -> None:
    assert pod().counts


@pytest.mark.parametrize(
    "changes",
    [
        {"status__phase": "Pending"},
        {"status__phase": "Succeeded"},
        {"status__phase": None},
        {"status__podIP": None},
        {"status__podIP": ""},
        {"status__conditions": None},
        {"status__conditions": [{"type": "Ready", "status": "False"}]},
        {"status__conditions": [{"type": "Ready", "status": "Unknown"}]},
        {"status__conditions": [{"type": "ContainersReady", "status": "True"}]},
        {"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_other_pods_do_not(changes: dict[str, Any]) -> None:
    assert not pod(**changes).counts


def test_its_worker() -> None:
    spec = PodReader(Discovery(service_discovery_port=8000)).spec(pod(), "regular")
    assert (spec.url, spec.worker_type, spec.models) == ("http://10.0.0.1:8000", "regular", None)
    assert spec.labels == {
        "smg.ai/pod-name": "p1",
        "smg.ai/pod-uid": "u1",
        "smg.ai/discovery-id": "u1:8000",
        "smg.ai/discovery-provider": "kubernetes",
    }
    assert (spec.kv_connector, spec.kv_engine_id, spec.bootstrap_port) == ("Nixl", "e1", None)


def test_ipv6() -> None:
    assert PodReader(Discovery()).spec(pod(status__podIP="fd00::1"), "regular").url == "http://[fd00::1]:80"


@pytest.mark.parametrize(
    ("source", "model"),
    [
        (None, None),
        ("namespace", "ns"),
        ("label:model", "of-label"),
        ("annotation:model", "of-annotation"),
        ("label:absent", None),
    ],
)
def test_the_model_s_name(source: str | None, model: str | None) -> None:
    spec = PodReader(Discovery(model_id_from=source)).spec(pod(), "regular")
    assert (spec.models[0].id if spec.models else None) == model


def test_other_annotations_by_flag() -> None:
    options = Discovery(kv_connector_annotation="model", kv_engine_id_annotation="absent")
    spec = PodReader(options).spec(pod(), "decode")
    assert (spec.kv_connector, spec.kv_engine_id) == ("of-annotation", None)


@pytest.mark.parametrize(
    ("text", "port"),
    [("8998", 8998), ("0", None), ("70000", None), ("x", None), ("", None), ("\uff18", None)],
)
def test_bootstrap_port(text: str, port: int | None) -> None:
    found = pod(metadata__annotations={"sglang.ai/bootstrap-port": text})
    assert PodReader(Discovery()).spec(found, "prefill").bootstrap_port == port


def role(kind: Any, *labels: str) -> Role:
    return Role(kind, tuple(map(LabelPair.parse, labels)))


def test_a_selector_as_query() -> None:
    roles = Roles([role("regular", "app=x", "smg.ai/kind=gpu")])
    assert roles.query == "app=x,smg.ai/kind=gpu"
    assert roles.of(pod()) == "regular"


def test_one_query_for_two_roles() -> None:
    shared = Roles([role("prefill", "app=x", "half=p", "a=b"), role("decode", "app=x", "half=d", "c=d")])
    assert shared.query == "app=x,half in (d,p)"
    assert Roles([role("prefill", "a=b"), role("decode", "c=d")]).query == ""


def test_the_first_role_that_fits() -> None:
    roles = Roles([role("prefill", "app=x", "model=of-label"), role("decode", "app=x")])
    assert roles.of(pod()) == "prefill"
    assert roles.of(pod(metadata__labels={"app": "x"})) == "decode"
    assert roles.of(pod(metadata__labels={"app": "y"})) is None
    assert roles.of(pod(metadata__labels=None)) is None


@pytest.mark.parametrize(
    "text", ["app", "=x", "app=x,y=z", "app!=x", "a b=c", "app=x y", "app==x", "x/y/z=1"]
)
def test_wrong_labels(text: str) -> None:
    with pytest.raises(ValueError, match="key=value"):
        LabelPair.parse(text)


@pytest.mark.parametrize("text", ["foo", "label", "label:", "namespace:x", "annotation: x", ""])
def test_wrong_sources_of_names(text: str) -> None:
    with pytest.raises(ValueError, match="namespace, label:KEY or annotation:KEY"):
        model_id_source(text)


@pytest.mark.parametrize("text", ["namespace", "label:model", "annotation:smg.ai/model"])
def test_sources_of_names(text: str) -> None:
    assert model_id_source(text) == text
