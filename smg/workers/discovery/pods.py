"""Pods of a Kubernetes cluster as workers: what is read of a pod, when it counts, what its worker is like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from smg.config.discovery import Discovery, LabelPair
from smg.workers.discovery.reconcile import labelled
from smg.workers.spec import WorkerSpec, WorkerType
from smg.workers.worker import ModelCard

SOURCE = "kubernetes"
POD_NAME_LABEL = "smg.ai/pod-name"
POD_UID_LABEL = "smg.ai/pod-uid"
BOOTSTRAP_PORT_ANNOTATION = "sglang.ai/bootstrap-port"


class ClusterError(Exception):
    """No usable answer of the API server; `reason` is a label of the metrics."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


class Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""
    pod_ip: str | None = msgspec.field(name="podIP", default=None)
    conditions: list[Condition] | None = None


class Pod(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    status: PodStatus = PodStatus()

    @property
    def counts(self) -> bool:
        """Can requests be sent to it?"""
        status = self.status
        ready = any(one.type == "Ready" and one.status == "True" for one in status.conditions or ())
        return status.phase == "Running" and bool(status.pod_ip) and ready and not self.is_leaving

    @property
    def is_leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None


class ListMetadata(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str | None = msgspec.field(name="continue", default=None)


class PodList(msgspec.Struct, frozen=True):
    metadata: ListMetadata = ListMetadata()
    items: list[Pod] | None = None


class Problem(msgspec.Struct, frozen=True):
    """The `Status` object in which the API server says what is wrong."""

    code: int = 0
    reason: str = ""


class WatchEvent(msgspec.Struct, frozen=True):
    """`object` is a pod, or a `Problem` when the type is ERROR."""

    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Role:
    """Pods with these labels are workers of this type."""

    worker_type: WorkerType
    selector: tuple[LabelPair, ...]

    def fits(self, pod: Pod) -> bool:
        labels = pod.metadata.labels or {}
        return all(labels.get(pair.key) == pair.value for pair in self.selector)


class Roles:
    """Which pods to ask for, and what each of them is."""

    def __init__(self, roles: Iterable[Role]) -> None:
        self._roles = tuple(roles)

    @property
    def query(self) -> str:
        """A label selector that leaves out no pod of any role: the labels that every role asks for."""
        wanted = [{pair.key: pair.value for pair in role.selector} for role in self._roles]
        terms = []
        for key in wanted[0]:
            if all(key in one for one in wanted):
                values = sorted({one[key] for one in wanted})
                terms.append(f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})")
        return ",".join(terms)

    def of(self, pod: Pod) -> WorkerType | None:
        """The type of the first role that a pod fits; where there is only one, the server has chosen."""
        if len(self._roles) == 1:
            return self._roles[0].worker_type
        return next((role.worker_type for role in self._roles if role.fits(pod)), None)


class PodReader:
    """Makes workers of pods as the options of discovery say."""

    def __init__(self, options: Discovery) -> None:
        self._port = options.service_discovery_port
        self._model_from = options.model_id_from
        self._connector = options.kv_connector_annotation
        self._engine = options.kv_engine_id_annotation

    def spec(self, pod: Pod, worker_type: WorkerType) -> WorkerSpec:
        """The worker in a pod that counts."""
        metadata, address = pod.metadata, pod.status.pod_ip or ""
        host = f"[{address}]" if ":" in address else address
        annotations = metadata.annotations or {}
        model = self._model(metadata)
        pod_labels = {POD_NAME_LABEL: metadata.name, POD_UID_LABEL: metadata.uid}
        return WorkerSpec(
            url=f"http://{host}:{self._port}",
            models=(ModelCard(model),) if model else None,
            worker_type=worker_type,
            labels=labelled(SOURCE, f"{metadata.uid}:{self._port}", model, **pod_labels),
            bootstrap_port=_port(annotations) if worker_type == "prefill" else None,
            kv_connector=annotations.get(self._connector),
            kv_engine_id=annotations.get(self._engine),
        )

    def _model(self, metadata: Metadata) -> str:
        """What the pod calls its model; empty when the engine is to say it."""
        kind, _, key = (self._model_from or "").partition(":")
        if kind == "namespace":
            return metadata.namespace
        found = {"label": metadata.labels, "annotation": metadata.annotations}.get(kind)
        return (found or {}).get(key, "")


def _port(annotations: dict[str, str]) -> int | None:
    text = annotations.get(BOOTSTRAP_PORT_ANNOTATION, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return number if 1 <= number <= 65_535 else None
