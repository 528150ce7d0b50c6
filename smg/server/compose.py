"""Builds the gateway's parts from the configuration: one function for each, called by the lifecycle in the
order they need each other."""

from __future__ import annotations

import asyncio
import functools
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
from smg.backends.http import HttpBackend
from smg.config.model import Config
from smg.gateway.admit import Admission
from smg.gateway.gateway import Gateway
from smg.gateway.record import Recorder
from smg.gateway.route import Router
from smg.gateway.serve import serve
from smg.policies.choose import POLICIES
from smg.policies.manual import Pins
from smg.server.admin.auth import AdminGuard
from smg.server.cors import Cors
from smg.server.deps import Deps
from smg.telemetry import logs
from smg.telemetry.metrics import Metrics
from smg.workers.engine import EngineClient
from smg.workers.register import Registrar
from smg.workers.registry import Registry
from smg.workers.worker import Worker

log = logs.get("compose")

LINGER_S = 2.0


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

    def attach(worker: Worker) -> HttpBackend:
        return HttpBackend(
            worker,
            limits,
            counts,
            tls,
            connect_s=upstream.connect_timeout_secs or upstream.request_timeout_secs,
            timeout_s=upstream.request_timeout_secs,
        )

    return Registry(aliases, attach)


def registrar(config: Config, registry: Registry, client: EngineClient, metrics: Metrics) -> Registrar:
    return Registrar(
        registry,
        client,
        config.workers,
        config.breaker,
        config.auth.api_key,
        on_breaker=lambda url, old, new: metrics.breaker_transitions.add(
            (url, old.name.lower(), new.name.lower())
        ),
    )


def deps(
    config: Config,
    registry: Registry,
    registrar: Registrar,
    client: EngineClient,
    is_draining: Callable[[], bool],
) -> Deps:
    """What the aiohttp routes work with."""
    auth = config.auth
    identity = Identity(auth.api_key, [(one.tenant, one.key) for one in auth.tenant_api_key])
    return Deps(
        registry=registry,
        registrar=registrar,
        client=client,
        identity=identity,
        guard=AdminGuard(identity, auth.control_plane_api_keys),
        request_ids=RequestIds(config.listen.request_id_headers),
        cors=Cors(config.listen.cors_allowed_origins),
        version=smg.__version__,
        not_ready_reason=lambda: "draining" if is_draining() else None,
        data_plane_paths=tuple(surface.path for surface in SURFACES),
    )


def serving(config: Config, deps: Deps, metrics: Metrics) -> Callable[[Exchange], Coroutine[Any, Any, None]]:
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
    pins = Pins(routing.max_idle_secs, time.monotonic) if routing.routing_key_override else None
    make_policy = functools.partial(POLICIES[routing.policy], routing)
    router = Router(deps.registry, make_policy, config.retry, routing.routing_key_headers, pins)
    metrics.policy = routing.policy
    metrics.buffered_because = "policy_needs_text" if router.reads_body else "retryable"
    pipe_above = -1 if config.retry.disable_retries else config.listen.max_buffered_request_bytes
    may_pipe = not routing.enable_igw and not routing.routing_key_override
    gateway = Gateway(
        admission,
        router,
        Recorder(metrics),
        pipe_above if may_pipe else None,
    )

    return lambda x: serve(x, gateway)


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
