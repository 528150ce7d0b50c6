"""The chart as Helm renders it: its objects against the types of Kubernetes, and its gateway's options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_asyncio.client as kubernetes
import yaml

from smg.cli import launch
from smg.cli.parser import Parser
from smg.config.model import Config
from smg.config.options import config_from

REPOSITORY = Path(__file__).parents[3]
CHART = REPOSITORY / "deploy" / "helm" / "smg"
Object = dict[str, Any]

MODELS = {
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "Service"): "V1Service",
    ("v1", "ServiceAccount"): "V1ServiceAccount",
    ("apps/v1", "Deployment"): "V1Deployment",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "V2HorizontalPodAutoscaler",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
    ("policy/v1", "PodDisruptionBudget"): "V1PodDisruptionBudget",
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): "V1ClusterRole",
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): "V1ClusterRoleBinding",
    ("rbac.authorization.k8s.io/v1", "Role"): "V1Role",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "V1RoleBinding",
}
_PLAIN: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "object": object}


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    """Helm brings its own runtime, which is kept out of the tests' process."""
    command = [sys.executable, str(REPOSITORY / "tools" / "render_chart.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})


def render(folder: Path, values: Object, *words: str) -> list[Object]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    done = tool("--values", str(path), *words)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def refusal(folder: Path, values: Object) -> str:
    """What Helm says of values that it does not take."""
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    done = tool("--values", str(path))
    assert done.returncode == 1, done.stdout
    return done.stderr


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, [o["metadata"]["name"] for o in found]
    return found[0]


def pod_of(objects: list[Object]) -> Object:
    spec: Object = one(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: list[Object], name: str = "smg") -> Object:
    found: Object = next(c for c in pod_of(objects)["containers"] if c["name"] == name)
    return found


def problems_of(thing: Any, kind: str, where: str) -> list[str]:
    """Where a value is not what the Kubernetes API has: unknown members, wrong types, missing ones."""
    if inner := re.fullmatch(r"list\[(.+)\]", kind):
        if not isinstance(thing, list):
            return [f"{where} is no list"]
        return [p for n, item in enumerate(thing) for p in problems_of(item, inner[1], f"{where}[{n}]")]
    if inner := re.fullmatch(r"dict\(str, (.+)\)", kind):
        if not isinstance(thing, dict):
            return [f"{where} is no map"]
        return [p for name, item in thing.items() for p in problems_of(item, inner[1], f"{where}.{name}")]
    if kind in _PLAIN:
        return [] if isinstance(thing, _PLAIN[kind]) else [f"{where} is {thing!r}, not {kind}"]
    return _problems_of_model(thing, getattr(kubernetes, kind), where)


def _problems_of_model(thing: Any, model: Any, where: str) -> list[str]:
    if not isinstance(thing, dict):
        return [f"{where} is no {model.__name__}"]
    names = {wire: own for own, wire in model.attribute_map.items()}
    found = [f"{where}.{name} is unknown" for name in thing if name not in names]
    for name, value in thing.items():
        if name in names:
            found += problems_of(value, model.openapi_types[names[name]], f"{where}.{name}")
    try:  # the constructors refuse to be without a member that the API needs
        model(**{names[name]: value for name, value in thing.items() if name in names})
    except ValueError as problem:
        found.append(f"{where}: {problem}")
    return found


def config_of(objects: list[Object], folder: Path) -> Config:
    """The gateway's configuration as its container gets it; files are looked for below the folder."""
    words = [word.replace("/etc/smg", str(folder)) for word in write_files(objects, folder)]
    parser = Parser(prog="smg")
    launch.add_parser(parser.add_subparsers(dest="command"))
    args, unknown = parser.parse_known_args(words)
    assert unknown == []
    return config_from(args, {one["name"]: "a:b:admin:c" for one in container(objects).get("env", [])})


def write_files(objects: list[Object], folder: Path) -> list[str]:
    """Puts the ConfigMap below the folder, as it is mounted; returns the words of the container's command."""
    mounted = {m["name"]: m["mountPath"] for m in container(objects)["volumeMounts"]}
    assert mounted["config"] == "/etc/smg/config"
    (folder / "config").mkdir(exist_ok=True)
    for name, text in one(objects, "ConfigMap")["data"].items():
        (folder / "config" / name).write_text(text.replace("/etc/smg", str(folder)))
    words: list[str] = container(objects)["args"]
    return words
