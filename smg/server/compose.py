"""Builds the gateway's parts from the configuration: one function for each, called by the lifecycle in the
order they need each other."""

from __future__ import annotations

import asyncio
import functools
import random
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

import smg
from smg import errors
from smg._fast.exchange import Exchange
from smg._fast.limits import Counts, Limits
from smg.admission.identity import Identity
from smg.api.request_id import DEFAULT_PREFIX, RequestIds, generate
from smg.api.surfaces import SURFACES
from smg.backends.data_parallel import RankBackend
from smg.backends.http import HttpBackend
from smg.backends.pair import PairBackend
from smg.config.model import Config
from smg.gateway.admit import Admission
from smg.gateway.explain import Explainer
from smg.gateway.gateway import Gateway
from smg.gateway.record import Recorder
from smg.gateway.route import Router
from smg.gateway.serve import serve
from smg.policies.choose import POLICIES
from smg.policies.manual import Pins
from smg.policies.ramp import warming
from smg.server import compose_admission, compose_control, compose_pairs, compose_state
from smg.server.admin.tokens import Tokens
from smg.server.compose_admission import Guards
from smg.server.console.routes import Console
from smg.server.console.view import View
from smg.server.cors import Cors
from smg.server.deps import Deps
from smg.server.realtime import Realtime
from smg.server.realtime_calls import RealtimeCalls
from smg.state.link import Link
from smg.telemetry import logs
from smg.telemetry.metrics import Metrics
from smg.telemetry.spans import SpanSender
from smg.telemetry.trace import Trace
from smg.workers.engine import EngineClient
from smg.workers.load import LoadMonitor
from smg.workers.overload import Overload
from smg.workers.register import Registrar
from smg.workers.registry import Registry
from smg.workers.warmup import Warmup
from smg.workers.worker import DECODE, PREFILL, Backend, Worker

log = logs.get("compose")

LINGER_S = 2.0
REALTIME_CONNECT_S = 30.0
"""How long a worker may take to upgrade a connection, unless --connect-timeout-secs says otherwise."""


def limits(loop: asyncio.AbstractEventLoop, config: Config) -> Limits:
    listen, upstream = config.listen, config.upstream
    return Limits(
        loop,
        header_read_s=listen.header_read_timeout_secs,
        idle_s=listen.idle_connection_timeout_secs,
        body_stall_s=listen.stream_body_stall_timeout_secs,
        linger_s=LINGER_S,
        request_s=upstream.request_timeout_secs,
        first_byte_s=upstream.first_byte_timeout_secs or 0,
        pool_idle_s=upstream.upstream_pool_idle_timeout_secs,
        keepalive_s=listen.sse_keepalive_secs,
        between_s=upstream.between_bytes_timeout_secs or 0,
        max_payload_bytes=listen.max_payload_size,
        broken_frame=errors.stream_error_frame("Stream error: the worker's answer broke off"),
        timeout_frame=errors.stream_error_frame("Stream error: the worker took too long"),
    )


def registry(config: Config, limits: Limits, counts: Counts, tls: ssl.SSLContext) -> Registry:
    """The workers, each given its backend when it is first ready."""
    aliases = {one.alias: one.model for one in config.routing.model_alias}
    upstream = config.upstream

    def attach(worker: Worker) -> Backend:
        make = HttpBackend if worker.rank is None else RankBackend
        http = make(
            worker,
            limits,
            counts,
            tls,
            connect_s=upstream.connect_timeout_secs,
            timeout_s=upstream.request_timeout_secs,
        )
        return PairBackend(worker, http) if worker.worker_type == DECODE else http

    return Registry(aliases, attach)


def registrar(config: Config, registry: Registry, client: EngineClient, metrics: Metrics) -> Registrar:
    return Registrar(
        registry,
        client,
        compose_control.workers(config),
        config.breaker,
        config.auth.api_key,
        on_breaker=lambda url, old, new: metrics.breaker_transitions.add(
            (url, old.name.lower(), new.name.lower())
        ),
        protection=config.protection,
    )


def deps(
    config: Config,
    registry: Registry,
    registrar: Registrar,
    client: EngineClient,
    is_draining: Callable[[], bool],
    tokens: Tokens | None = None,
) -> Deps:
    """What the aiohttp routes work with."""
    auth = config.auth
    identity = Identity(
        auth.api_key,
        [(one.tenant, one.key) for one in auth.tenant_api_key],
        header=config.admission.tenant_header_name if config.admission.trust_tenant_header else None,
        tells_strangers_apart=config.admission.tells_tenants_apart,
    )
    guard = compose_control.guard(config, identity, tokens)
    request_ids = RequestIds(config.listen.request_id_headers)
    return Deps(
        registry=registry,
        registrar=registrar,
        client=client,
        identity=identity,
        guard=guard,
        request_ids=request_ids,
        cors=Cors(config.listen.cors_allowed_origins),
        version=smg.__version__,
        not_ready_reason=lambda: "draining" if is_draining() else None,
        data_plane_paths=tuple(surface.path for surface in SURFACES),
        audit=compose_control.audit(config, guard, request_ids),
    )


def router(config: Config, registry: Registry, link: Link | None = None) -> Router:
    routing = config.routing
    places = compose_state.places(config, link)
    pins = None
    if routing.routing_key_override:
        pins = Pins(routing.max_idle_secs, time.monotonic, shared=places)
    protection = config.protection
    warmup = Warmup(
        registry,
        protection.worker_warmup_secs,
        protection.worker_warmup_share,
        protection.worker_warmup_blocks,
        random.Random(),  # noqa: S311
    )
    warm = functools.partial(warming, warmup=warmup, options=protection)
    make_policy = warm(compose_state.sharing(functools.partial(POLICIES[routing.policy], routing), places))
    sheds, retry_after_s = protection.worker_overload_shed, config.workers.load_monitor_interval
    overload = Overload(registry, sheds, retry_after_s)
    made = (
        compose_pairs.pair_router(config, registry, make_policy, warm, pins, overload, link)
        if config.disaggregation.pd_disaggregation
        else Router(registry, make_policy, config.retry, routing.routing_key_headers, pins, overload)
    )
    made.warmup = warmup
    made.recalls = places is not None
    return made


def load_monitor(
    config: Config, registry: Registry, registrar: Registrar, client: EngineClient, router: Router
) -> LoadMonitor:
    return LoadMonitor(
        registry,
        client,
        registrar.prober.key_of,
        config.workers.load_monitor_interval,
        on_report=router.overload.judge if router.overload is not None else None,
    )


def realtime(config: Config, deps: Deps, router: Router, guards: Guards, metrics: Metrics) -> Realtime:
    upstream = config.upstream
    made = Realtime(
        deps,
        router,
        connect_s=upstream.connect_timeout_secs or REALTIME_CONNECT_S,
        max_message_bytes=config.listen.max_payload_size,
        admit=compose_admission.admit(guards.permits, deps.identity),
        failures=metrics.failures,
    )
    metrics.plug("smg_realtime_sessions", lambda: [((), len(made.sessions))])
    return made


def realtime_calls(deps: Deps, realtime: Realtime) -> RealtimeCalls:
    return RealtimeCalls(deps, realtime)


def console(deps: Deps, metrics: Metrics, guards: Guards) -> Console:
    view = View(deps.registry, metrics, deps.version, deps.not_ready_reason, guards.snapshot)
    return Console(deps, view)


def serving(
    config: Config,
    deps: Deps,
    metrics: Metrics,
    router: Router,
    guards: Guards,
    spans: SpanSender | None = None,
) -> Callable[[Exchange], Coroutine[Any, Any, None]]:
    """Who carries the exchanges of the data plane."""
    admission = Admission(
        deps.identity,
        deps.request_ids,
        deps.registry.resolve,
        config.listen.max_payload_size,
        config.upstream.request_timeout_secs,
        config.listen.stream_body_stall_timeout_secs,
        deps.cors if deps.cors.is_on else None,
    )
    routing = config.routing
    metrics.policy = routing.policy
    pairs = config.disaggregation
    metrics.policies = {
        PREFILL: pairs.prefill_policy or routing.policy,
        DECODE: pairs.decode_policy or routing.policy,
    }
    metrics.buffered_because = router.buffered_because
    pipe_above = -1 if config.retry.disable_retries else config.listen.max_buffered_request_bytes
    # A rank's number is written into the body.
    must_read = routing.enable_igw or routing.routing_key_override or config.workers.dp_aware
    context = [(one.header.encode(), one.key) for one in config.telemetry.storage_context_headers]
    gateway = Gateway(
        admission,
        router,
        Recorder(metrics, context),
        None if must_read else pipe_above,
        guards.permits,
        Explainer(deps.guard.opens),
        guards.spending,
    )

    if spans is None:
        return lambda x: serve(x, gateway)
    emit = spans.emit

    def traced(x: Exchange) -> Coroutine[Any, Any, None]:
        x.trace = Trace(x.head.forward, x.begun_ns, emit)
        return serve(x, gateway)

    return traced


def span_sender(config: Config, metrics: Metrics) -> SpanSender | None:
    """Who takes the spans to the collector; None when nothing is traced."""
    if not config.tracing.enable_trace:
        return None
    sender = SpanSender(config.tracing.otlp_traces_endpoint)
    metrics.plug("smg_trace_spans_total", sender.samples)
    return sender


def refuse(status: int, message: str) -> tuple[bytes, bytes, bytes]:
    """Reason, header lines and body for bytes that are no request; an empty reason: no answer."""
    log.warn("malformed request", status=status, problem=message or "HTTP/2 preface")
    if not message:
        return b"", b"", b""
    error = errors.malformed_request(status, message)
    headers, body = errors.render(error)
    headers.append(("x-request-id", generate(DEFAULT_PREFIX)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
    return errors.REASONS[status].encode(), lines, body
