"""The section Tracing of the configuration, and its rules."""

from __future__ import annotations

import importlib.util
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from smg.config.fields import Option

TRACING = "Tracing"
_SCHEMES = ("http", "https")


class Tracing(msgspec.Struct, frozen=True, kw_only=True):
    """OpenTelemetry traces; imports nothing and costs nothing when off."""

    enable_trace: Annotated[
        bool,
        Option(
            group=TRACING,
            help="Continue the callers' traces towards the workers, and send spans of the sampled ones to a "
            "collector. Off: traceparent and tracestate pass as sent. Needs the extra otel.",
        ),
    ] = False
    otlp_traces_endpoint: Annotated[
        str,
        Option(
            group=TRACING,
            metavar="HOST:PORT",
            help="Collector that takes OTLP over gRPC; with https:// in front by TLS.",
        ),
    ] = "localhost:4317"


def problem_of(tracing: Tracing) -> str | None:
    """What is wrong with the section, if anything."""
    if not tracing.enable_trace:
        return None
    endpoint = tracing.otlp_traces_endpoint
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        is_good = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port is not None
    except ValueError:
        is_good = False
    if not is_good or "@" in endpoint:
        return "--otlp-traces-endpoint: needs HOST:PORT, with http:// or https:// in front if you like"
    if not _is_installed("opentelemetry.sdk.trace") or not _is_installed(
        "opentelemetry.exporter.otlp.proto.grpc"
    ):
        return "--enable-trace needs the packages that pip install 'smg[otel]' installs"
    return None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
