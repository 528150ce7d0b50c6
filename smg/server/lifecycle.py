"""The composition root: builds every object from the configuration, in the order they need each other,
runs them, and takes them down again."""

from __future__ import annotations

import asyncio
import functools
import gc
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop
from aiohttp import web

import smg
from smg import errors
from smg._fast.exchange import Exchange
from smg._fast.front import Front
from smg._fast.ingress import Ingress
from smg._fast.limits import Counts, Limits
from smg.admission.identity import Identity
from smg.api.request_id import DEFAULT_PREFIX, RequestIds, generate
from smg.api.surfaces import SURFACES
from smg.backends.http import HttpBackend, tls_context
from smg.config.model import Config
from smg.gateway.admit import Admission
from smg.gateway.gateway import Gateway
from smg.gateway.record import Recorder
from smg.gateway.route import Router
from smg.gateway.serve import serve
from smg.policies.choose import POLICIES
from smg.policies.manual import Pins
from smg.server.admin.auth import AdminGuard
from smg.server.app import build_app, build_probe_app
from smg.server.cors import Cors
from smg.server.deps import Deps
from smg.server.handover import handing_over
from smg.server.listener import Listener, StartError, server_tls, tcp_sockets, unix_socket
from smg.server.measures import build_metrics_app, watch
from smg.telemetry import logs
from smg.telemetry.metrics import Metrics
from smg.workers.engine import EngineClient, open_session
from smg.workers.load import LoadMonitor
from smg.workers.register import Registrar
from smg.workers.registry import Registry
from smg.workers.worker import Worker

log = logs.get("lifecycle")

SETTLE_S = 5.0
"""How long the gateway still accepts after SIGTERM, so that balancers see `/readiness` fail first."""
LINGER_S = 2.0
SWITCH_INTERVAL_S = 0.0005


def run(config: Config) -> int:
    """Run the gateway until SIGTERM or SIGINT; the exit code."""
    try:
        stop_logs = logs.setup(config.telemetry)
    except OSError as error:
        print(
            f"smg launch: cannot write logs to {config.telemetry.log_dir}: {error.strerror}", file=sys.stderr
        )
        return 1
    try:
        return uvloop.run(_main(config))
    except StartError as error:
        print(f"smg launch: {error}", file=sys.stderr)
        return 1
    finally:
        stop_logs()


async def _main(config: Config) -> int:
    # Large bodies are decoded in threads: how long one of them may keep the loop waiting.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = Server(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    by_hand = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            server.cut.set()
        if number == signal.SIGINT:
            by_hand.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        await server.start()
        # What lives now lives to the end: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        await stop.wait()
        await server.drain(0.0 if by_hand.is_set() else SETTLE_S)
    finally:
        await server.close()
    return 0


class Server:
    """One gateway: `start`, then `drain`, then `close`. Several can live in one process."""

    def __init__(self, config: Config) -> None:
        loop = asyncio.get_running_loop()
        listen, upstream = config.listen, config.upstream
        self.config = config
        self.cut = asyncio.Event()
        self.draining = False
        self.counts = Counts()
        self.metrics = Metrics(config.telemetry.prometheus_duration_buckets)
        self.limits = Limits(
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
        self._listener = Listener()
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        """Listen at once; workers register in the background. Raises `StartError`."""
        sockets = self._sockets()
        session = self._session = open_session()
        upstream = self.config.upstream
        tls = tls_context(list(upstream.ca_cert_paths), upstream.client_cert_path, upstream.client_key_path)
        client = EngineClient(session, tls)
        self.registry = Registry(self._aliases(), functools.partial(self._attach, tls))
        self.registrar = Registrar(
            self.registry,
            client,
            self.config.workers,
            self.config.breaker,
            self.config.auth.api_key,
            on_breaker=lambda url, old, new: self.metrics.breaker_transitions.add(
                (url, old.name.lower(), new.name.lower())
            ),
        )
        deps = self._deps(client)
        runner = await self._runner(build_app(deps))
        assert runner.server is not None
        self.front = Front(
            self.limits,
            self.counts,
            routes={surface.path.encode(): surface for surface in SURFACES},
            serve=self._serving(deps),
            refuse=_refuse,
            make_fallback=handing_over(runner.server, lambda: self.draining),
        )
        watch(self.metrics, self.counts, self.registry, self.front)
        await self._listen(sockets, deps)
        if not self.config.workers.disable_load_monitoring:
            monitor = LoadMonitor(
                self.registry, client, self.registrar.prober.key_of, self.config.workers.load_monitor_interval
            )
            self._monitoring = asyncio.create_task(monitor.run(), name="load monitor")
        self.registrar.add_configured()
        log.info(
            "listening", urls=self._listener.urls, workers=[str(u) for u in self.config.workers.worker_urls]
        )

    @property
    def urls(self) -> list[str]:
        return self._listener.urls

    async def drain(self, settle_s: float) -> None:
        """Finish what runs within the grace period, then cut what is left."""
        grace_s = self.config.listen.shutdown_grace_period_secs
        deadline = asyncio.get_running_loop().time() + grace_s
        self.draining = True
        self.front.draining = True
        log.info("draining", grace_s=grace_s)
        await self._cut_within(min(settle_s, grace_s))
        self._listener.stop()
        self.front.close_idle()
        while self.front.busy and not self.cut.is_set() and asyncio.get_running_loop().time() < deadline:
            await self._cut_within(0.02)
        self.front.abort_all()
        log.info("drained")

    async def close(self) -> None:
        """Let go of everything that was started, in whatever state it is."""
        self._listener.stop()
        if hasattr(self, "front"):
            self.front.abort_all()
        if hasattr(self, "_monitoring"):
            self._monitoring.cancel()
        if hasattr(self, "registrar"):
            await self.registrar.close()
            for worker in self.registry.all():
                if worker.backend is not None:
                    worker.backend.close()
        for runner in self._runners:
            await runner.cleanup()
        if hasattr(self, "_session"):
            await self._session.close()
        self.limits.close()

    async def _cut_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.cut.wait()
        except TimeoutError:
            pass

    def _sockets(self) -> list[Any]:
        listen = self.config.listen
        sockets: list[Any] = []
        if listen.port is not None:
            sockets += tcp_sockets(listen.host, listen.port)
        if listen.uds is not None:
            sockets.append(unix_socket(listen.uds))
        return sockets

    async def _listen(self, sockets: list[Any], deps: Deps) -> None:
        listen, telemetry = self.config.listen, self.config.telemetry
        tls = None
        if listen.tls_cert_path is not None and listen.tls_key_path is not None:
            tls = server_tls(listen.tls_cert_path, listen.tls_key_path)
        await self._listener.start(functools.partial(Ingress, self.front), sockets, tls)  # type: ignore[arg-type]
        metrics_host = telemetry.prometheus_host or ("::" if ":" in listen.host else "0.0.0.0")
        await self._side_port(build_metrics_app(self.metrics), metrics_host, telemetry.prometheus_port)
        if listen.health_check_port is not None:
            await self._side_port(build_probe_app(deps), listen.host, listen.health_check_port)

    async def _side_port(self, app: web.Application, host: str, port: int) -> None:
        runner = await self._runner(app)
        for one in tcp_sockets(host, port):
            await web.SockSite(runner, one).start()

    async def _runner(self, app: web.Application) -> web.AppRunner:
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runners.append(runner)
        return runner

    def _aliases(self) -> dict[str, str]:
        return {one.alias: one.model for one in self.config.routing.model_alias}

    def _attach(self, tls: Any, worker: Worker) -> HttpBackend:
        upstream = self.config.upstream
        return HttpBackend(
            worker,
            self.limits,
            self.counts,
            tls,
            connect_s=upstream.connect_timeout_secs or upstream.request_timeout_secs,
            timeout_s=upstream.request_timeout_secs,
        )

    def _deps(self, client: EngineClient) -> Deps:
        auth = self.config.auth
        identity = Identity(auth.api_key, [(one.tenant, one.key) for one in auth.tenant_api_key])
        return Deps(
            registry=self.registry,
            registrar=self.registrar,
            client=client,
            identity=identity,
            guard=AdminGuard(identity, auth.control_plane_api_keys),
            request_ids=RequestIds(self.config.listen.request_id_headers),
            cors=Cors(self.config.listen.cors_allowed_origins),
            version=smg.__version__,
            not_ready_reason=lambda: "draining" if self.draining else None,
            data_plane_paths=tuple(surface.path for surface in SURFACES),
        )

    def _serving(self, deps: Deps) -> Callable[[Exchange], Coroutine[Any, Any, None]]:
        config = self.config
        admission = Admission(
            deps.identity,
            deps.request_ids,
            self.registry.resolve,
            config.listen.max_payload_size,
            config.upstream.request_timeout_secs,
            config.listen.stream_body_stall_timeout_secs,
            deps.cors if deps.cors.is_on else None,
        )
        routing = config.routing
        pins = Pins(routing.max_idle_secs, time.monotonic) if routing.routing_key_override else None
        make_policy = functools.partial(POLICIES[routing.policy], routing)
        router = Router(self.registry, make_policy, config.retry, routing.routing_key_headers, pins)
        self.metrics.policy = routing.policy
        self.metrics.buffered_because = "policy_needs_text" if router.reads_body else "retryable"
        pipe_above = -1 if config.retry.disable_retries else config.listen.max_buffered_request_bytes
        may_pipe = not routing.enable_igw and not routing.routing_key_override
        gateway = Gateway(
            admission,
            router,
            Recorder(self.metrics),
            pipe_above if may_pipe else None,
        )

        return lambda x: serve(x, gateway)


def _refuse(status: int, message: str) -> tuple[bytes, bytes, bytes]:
    """Reason, header lines and body for bytes that are no request; an empty reason: no answer."""
    log.warn("malformed request", status=status, problem=message or "HTTP/2 preface")
    if not message:
        return b"", b"", b""
    error = errors.malformed_request(status, message)
    headers, body = errors.render(error)
    headers.append(("x-request-id", generate(DEFAULT_PREFIX)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
    return errors.REASONS[status].encode(), lines, body
