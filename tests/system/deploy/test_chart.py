"""The chart's objects: what Kubernetes and the gateway take, in all modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

import smg
from smg.config.fields import fields_of
from smg.config.model import Config
from smg.server.lifecycle import SETTLE_S
from tests.system.deploy.chart import (
    CHART,
    MODELS,
    Object,
    config_of,
    container,
    one,
    pod_of,
    problems_of,
    refusal,
    render,
    tool,
)

EXAMPLES = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted((CHART / "examples").glob("*.yaml"))
}
CLUSTER: Object = {
    "discovery": {"enabled": True, "selector": {"app": "vllm", "tier": "gpu"}, "allNamespaces": True}
}
PAIRS: Object = {
    "config": {"pd_disaggregation": True},
    "discovery": {
        "enabled": True,
        "namespace": "engines",
        "prefillSelector": {"role": "prefill"},
        "decodeSelector": {"role": "decode"},
    },
}
KINDS = {"defaults": {}, "cluster": CLUSTER, "pairs": PAIRS, **EXAMPLES}
SIDECAR = EXAMPLES["sidecar"]


@pytest.fixture(params=sorted(KINDS))
def values(request: pytest.FixtureRequest) -> Object:
    found: Object = KINDS[request.param]
    return found


@pytest.fixture
def objects(values: Object, tmp_path: Path) -> list[Object]:
    return render(tmp_path, values, "--name", "front", "--namespace", "serving")


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    (tmp_path / "tls").mkdir()
    made = trustme.CA().issue_cert("gateway")
    made.private_key_pem.write_to_path(tmp_path / "tls" / "tls.key")
    made.cert_chain_pems[0].write_to_path(tmp_path / "tls" / "tls.crt")
    return tmp_path


def test_helm_finds_no_mistakes() -> None:
    done = tool("--lint")
    assert done.returncode == 0, done.stdout


def test_it_installs_this_version(tmp_path: Path) -> None:
    assert container(render(tmp_path, {}))["image"] == f"smg:{smg.__version__}"


def test_objects_are_what_kubernetes_takes(objects: list[Object]) -> None:
    problems = []
    for found in objects:
        kind = (found["apiVersion"], found["kind"])
        if kind != ("monitoring.coreos.com/v1", "ServiceMonitor"):
            problems += problems_of(found, MODELS[kind], found["kind"])
    assert problems == []
    names = [(o["kind"], o["metadata"]["name"]) for o in objects]
    assert len(set(names)) == len(names)


def test_selectors_find_the_pods(objects: list[Object]) -> None:
    deployment = one(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [o["spec"]["selector"] for o in objects if o["kind"] == "Service"]
    selectors += [o["spec"]["selector"]["matchLabels"] for o in objects if o["kind"] == "PodDisruptionBudget"]
    selectors += [o["spec"]["podSelector"]["matchLabels"] for o in objects if o["kind"] == "NetworkPolicy"]
    assert all(selector and selector.items() <= labels for selector in selectors)
    for monitor in [o for o in objects if o["kind"] == "ServiceMonitor"]:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = [o for o in objects if o["kind"] == "Service" and wanted <= o["metadata"]["labels"].items()]
        assert [o["metadata"]["name"] for o in found] == ["front-smg-metrics"]
        assert monitor["spec"]["endpoints"][0]["port"] in [p["name"] for p in found[0]["spec"]["ports"]]


def test_the_gateway_takes_its_options(objects: list[Object], certificates: Path) -> None:
    config = config_of(objects, certificates)
    ports = {p["name"]: p["containerPort"] for p in container(objects)["ports"]}
    assert config.listen.port == ports.get("http", ports.get("https"))
    assert config.listen.health_check_port == ports["health"]
    assert config.telemetry.prometheus_port == ports["metrics"]


def test_ports_that_are_named_exist(objects: list[Object]) -> None:
    ports = {p["name"] for c in pod_of(objects)["containers"] for p in c["ports"]}
    smg = container(objects)
    probes = [smg[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [probe["path"] for probe in probes] == ["/liveness", "/liveness", "/readiness"]
    named = {probe["port"] for probe in probes}
    named |= {p["targetPort"] for o in objects if o["kind"] == "Service" for p in o["spec"]["ports"]}
    policies = [o for o in objects if o["kind"] == "NetworkPolicy"]
    named |= {p["port"] for o in policies for rule in o["spec"]["ingress"] for p in rule["ports"]}
    assert named <= ports


def test_pods_outlive_what_runs(objects: list[Object], certificates: Path) -> None:
    grace = config_of(objects, certificates).listen.shutdown_grace_period_secs
    before = container(objects).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert pod_of(objects)["terminationGracePeriodSeconds"] >= grace + before + 10
    # Kubernetes takes the pod out before the gateway stops to accept.
    probe = container(objects)["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < SETTLE_S


def test_pods_may_do_as_little_as_possible(objects: list[Object]) -> None:
    may = container(objects)["securityContext"]
    assert may["runAsNonRoot"] and may["runAsUser"] and may["readOnlyRootFilesystem"]
    assert may["allowPrivilegeEscalation"] is False
    assert may["capabilities"] == {"drop": ["ALL"]}
    assert pod_of(objects)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    finds = [o for o in objects if o["kind"] in ("Role", "ClusterRole")]
    assert pod_of(objects)["automountServiceAccountToken"] is bool(finds)


def test_volumes_that_are_mounted_exist(objects: list[Object]) -> None:
    volumes = [volume["name"] for volume in pod_of(objects)["volumes"]]
    mounted = {m["name"] for c in pod_of(objects)["containers"] for m in c["volumeMounts"]}
    assert len(set(volumes)) == len(volumes)
    assert mounted == set(volumes)
    names = [v["configMap"]["name"] for v in pod_of(objects)["volumes"] if "configMap" in v]
    assert names == [one(objects, "ConfigMap")["metadata"]["name"]]


@pytest.mark.parametrize("name", ["discovery", "pairs", "cluster"])
def test_discovery_may_list_and_watch_pods(name: str, tmp_path: Path) -> None:
    objects = render(tmp_path, KINDS[name], "--name", "front", "--namespace", "serving")
    kind = "ClusterRole" if name == "cluster" else "Role"
    role, binding = one(objects, kind), one(objects, kind + "Binding")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, role["metadata"]["name"])
    account = one(objects, "ServiceAccount")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "serving"}]
    assert pod_of(objects)["serviceAccountName"] == account
    namespace = {"discovery": "serving", "pairs": "engines", "cluster": None}[name]
    assert role["metadata"].get("namespace") == binding["metadata"].get("namespace") == namespace
    discovery = config_of(objects, tmp_path).discovery
    assert (discovery.provider, discovery.service_discovery_namespace) == ("kubernetes", namespace)


def test_secrets_are_only_referred_to(tmp_path: Path) -> None:
    objects = render(tmp_path, EXAMPLES["discovery"])
    env = container(objects)["env"]
    assert {e["name"] for e in env} == {"SMG_API_KEY", "SMG_CONTROL_PLANE_API_KEYS"}
    assert all(list(e["valueFrom"]) == ["secretKeyRef"] and "value" not in e for e in env)
    assert not [o for o in objects if o["kind"] == "Secret"]


@pytest.mark.parametrize("name", sorted(f.name for f in fields_of(Config) if f.option.secret))
def test_secrets_do_not_fit_into_the_config(name: str, tmp_path: Path) -> None:
    assert f"secretEnv.SMG_{name.upper()}" in refusal(tmp_path, {"config": {name: "x"}})


def test_an_engine_waits_for_its_gateway(tmp_path: Path) -> None:
    objects = render(tmp_path, SIDECAR)
    assert [c["name"] for c in pod_of(objects)["containers"]] == ["engine", "smg"]
    urls = config_of(objects, tmp_path).workers.worker_urls
    port = container(objects, "engine")["ports"][0]["containerPort"]
    assert [str(url) for url in urls] == [f"http://127.0.0.1:{port}"]
    grace = pod_of(objects)["terminationGracePeriodSeconds"]
    assert grace >= config_of(objects, tmp_path).listen.shutdown_grace_period_secs + 10 + 30
    assert one(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": 0,
        "maxUnavailable": 1,
    }


def test_files_of_tenants_and_classes(certificates: Path) -> None:
    objects = render(certificates, EXAMPLES["tenants"])
    config = config_of(objects, certificates)
    assert config.admission.priority_scheduler_enabled
    assert config.admission.tenant_rate_limit_enabled
    assert config.listen.tls_cert_path is not None


def test_a_changed_option_replaces_the_pods(tmp_path: Path) -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = one(render(tmp_path, values), "Deployment")["spec"]["template"]
        found: str = template["metadata"]["annotations"]["checksum/config"]
        return found

    assert checksum({}) == checksum({"replicas": 5})
    assert checksum({}) != checksum({"config": {"log_level": "debug"}})


def test_replicas_are_left_to_the_autoscaler(tmp_path: Path) -> None:
    objects = render(tmp_path, {"autoscaling": {"enabled": True}})
    assert "replicas" not in one(objects, "Deployment")["spec"]
    metric = one(objects, "HorizontalPodAutoscaler")["spec"]["metrics"][0]["containerResource"]
    assert metric["container"] == container(objects)["name"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "both"}, "mode"),
        ({"mode": "sidecar"}, "image"),
        ({**SIDECAR, "discovery": {"enabled": True}}, "discovery"),
        ({**SIDECAR, "autoscaling": {"enabled": True}}, "autoscaling"),
        ({**SIDECAR, "config": {"worker_urls": []}}, "config.worker_urls"),
        ({"config": {"port": 1}}, "config.port"),
        ({"config": {"health-check-port": 1}}, "config.health-check-port"),
        ({"secretEnv": {"SMG_API_KEY": "sk-1"}}, "SMG_API_KEY"),
        ({"servce": {}}, "servce"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_cannot_be_meant_are_refused(values: Object, said: str, tmp_path: Path) -> None:
    assert said in refusal(tmp_path, values)
