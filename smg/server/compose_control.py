"""Builds the parts of the control plane that are not always there: tokens, the audit log, discovery."""

from __future__ import annotations

import functools
from collections import Counter

import aiohttp
import msgspec

from smg._fast.limits import Spread
from smg.admission.identity import Identity
from smg.api.request_id import RequestIds
from smg.config.discovery import FILE
from smg.config.model import Config, Workers
from smg.server.admin.audit import Audit
from smg.server.admin.auth import AdminGuard
from smg.server.admin.jwks import IssuerKeys
from smg.server.admin.tokens import Tokens
from smg.server.deps import request_id_of
from smg.telemetry.exposition import Sample
from smg.telemetry.metrics import Metrics
from smg.workers.discovery.file import PAIRED, REGULAR, FileSource
from smg.workers.discovery.kubernetes import KubernetesSource
from smg.workers.discovery.pods import PodReader, Role, Roles
from smg.workers.discovery.reconcile import Reconciler
from smg.workers.engine import EngineClient
from smg.workers.register import Registrar
from smg.workers.registry import Registry

FILE_INTERVAL_S = 30


def tokens(config: Config, session: aiohttp.ClientSession) -> Tokens | None:
    """Tokens as credentials, if an issuer is configured. Its certificate is checked as the system does."""
    admin = config.admin
    if admin.jwt_issuer is None or admin.jwt_audience is None:
        return None
    keys = IssuerKeys(EngineClient(session), admin.jwt_issuer, admin.jwt_jwks_uri)
    return Tokens(admin.jwt_issuer, admin.jwt_audience, keys, admin.jwt_role_mapping)


def guard(config: Config, identity: Identity, tokens: Tokens | None) -> AdminGuard:
    return AdminGuard(identity, config.auth.control_plane_api_keys, tokens)


def audit(config: Config, guard: AdminGuard, request_ids: RequestIds) -> Audit | None:
    if not config.admin.control_plane_audit_enabled:
        return None
    return Audit(guard, lambda request: request_id_of(request, request_ids))


def workers(config: Config) -> Workers:
    """What discovery lists comes back by itself, so failed workers need not be kept."""
    removes = config.workers.remove_unhealthy_workers
    if removes is None:
        removes = config.discovery.provider is not None
    return msgspec.structs.replace(config.workers, remove_unhealthy_workers=removes)


def discovery(
    config: Config, registry: Registry, registrar: Registrar, metrics: Metrics
) -> FileSource | KubernetesSource | None:
    """What finds workers while the gateway runs, if anything is to."""
    options = config.discovery
    if options.provider is None:
        return None
    reconciler = Reconciler(options.provider, registry, registrar)
    _plug_discovery(metrics, reconciler)
    if options.provider == FILE:
        assert options.discovery_file is not None
        interval_s = options.discovery_check_interval_secs or FILE_INTERVAL_S
        pairs = config.disaggregation.pd_disaggregation
        return FileSource(options.discovery_file, reconciler, interval_s, PAIRED if pairs else REGULAR)
    # Importing the library takes 0.3 s and 40 MB.
    from smg.workers.discovery.cluster import Cluster

    cluster = Cluster(options.service_discovery_namespace)
    return KubernetesSource(cluster, PodReader(options), _roles(config), reconciler)


def _roles(config: Config) -> Roles:
    options = config.discovery
    if not config.disaggregation.pd_disaggregation:
        return Roles([Role("regular", options.selector)])
    return Roles([Role("prefill", options.prefill_selector), Role("decode", options.decode_selector)])


def _samples(source: str, counter: Counter[str]) -> list[Sample]:
    return [((source, key), count) for key, count in counter.items()]


def _plug_discovery(metrics: Metrics, found: Reconciler) -> None:
    source = found.source
    for name, counter in (
        ("smg_discovery_registrations_total", found.registrations),
        ("smg_discovery_deregistrations_total", found.deregistrations),
        ("smg_discovery_snapshot_errors_total", found.snapshot_errors),
    ):
        metrics.plug(name, functools.partial(_samples, source, counter))
    metrics.plug("smg_discovery_workers_discovered", lambda: [((source,), found.discovered)])
    metrics.plug_rows(
        "smg_discovery_sync_duration_seconds",
        Spread.bounds(),
        lambda: [((source,), found.sync_seconds.row())],
    )
