"""The section Discovery: where workers are found while the gateway runs, a file or a Kubernetes cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

import msgspec

from smg.config.fields import Option

DISCOVERY = "Service discovery"
FILE = "file"
KUBERNETES = "kubernetes"

_PORT_MOST = 65535
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class LabelPair:
    """`key=value`, a label a pod has to have."""

    key: str
    value: str

    @classmethod
    def parse(cls, text: str) -> LabelPair:
        key, sign, value = text.partition("=")
        if not sign or not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise ValueError("a label is written key=value, as Kubernetes allows them")
        return cls(key, value)

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


def model_id_source(text: str) -> str:
    """Checks what a model's name is taken from: `namespace`, `label:KEY` or `annotation:KEY` of a pod."""
    kind, sign, key = text.partition(":")
    known = kind in ("label", "annotation") and _LABEL_KEY.fullmatch(key) if sign else text == "namespace"
    if not known:
        raise ValueError("is namespace, label:KEY or annotation:KEY")
    return text


def _selector(what: str) -> Option:
    return Option(
        group=DISCOVERY,
        metavar="KEY=VALUE",
        parse=LabelPair.parse,
        at_least_one=True,
        help=f"Labels of the pods that are {what}; all of them have to fit.",
    )


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing here is read unless a provider is chosen."""

    service_discovery: Annotated[
        bool,
        Option(group=DISCOVERY, help="The same as --discovery-provider kubernetes; give one of them."),
    ] = False
    discovery_provider: Annotated[
        str | None,
        Option(
            group=DISCOVERY,
            choices=(KUBERNETES, FILE),
            help="Find workers in a Kubernetes cluster or in a file, for as long as the gateway runs.",
        ),
    ] = None
    selector: Annotated[tuple[LabelPair, ...], _selector("workers")] = ()
    service_discovery_port: Annotated[
        int, Option(group=DISCOVERY, least=1, most=_PORT_MOST, help="Port of the workers in their pods.")
    ] = 80
    service_discovery_namespace: Annotated[
        str | None,
        Option(
            group=DISCOVERY,
            metavar="NAME",
            help="Namespace of the pods. Unset: all namespaces, which needs a cluster role.",
        ),
    ] = None
    kv_connector_annotation: Annotated[
        str,
        Option(group=DISCOVERY, metavar="NAME", help="Annotation of a pod that names its KV connector."),
    ] = "smg.ai/kv-connector"
    kv_engine_id_annotation: Annotated[
        str,
        Option(group=DISCOVERY, metavar="NAME", help="Annotation of a pod that names its KV engine ID."),
    ] = "smg.ai/kv-engine-id"
    encode_selector: Annotated[tuple[LabelPair, ...], _selector("encode workers")] = ()
    prefill_selector: Annotated[tuple[LabelPair, ...], _selector("prefill workers")] = ()
    decode_selector: Annotated[tuple[LabelPair, ...], _selector("decode workers")] = ()
    model_id_from: Annotated[
        str | None,
        Option(
            group=DISCOVERY,
            metavar="SOURCE",
            parse=model_id_source,
            help="Name each worker's model after its pod: namespace, label:KEY or annotation:KEY. Unset: as "
            "the engine says.",
        ),
    ] = None
    discovery_file: Annotated[
        str | None,
        Option(
            group=DISCOVERY,
            metavar="FILE",
            help="JSON file that lists the workers; it is read again when it changes and may come later.",
        ),
    ] = None
    discovery_check_interval_secs: Annotated[
        int | None,
        Option(
            group=DISCOVERY,
            least=1,
            help="The file is also read this often, unchanged or not. Unset: 30.",
        ),
    ] = None

    @property
    def provider(self) -> str | None:
        """Where workers are looked for, if anywhere."""
        return KUBERNETES if self.service_discovery else self.discovery_provider
