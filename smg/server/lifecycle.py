"""The life of a gateway: its parts are built (compose.py) and run in the order they need each other, and
taken down again."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop
from aiohttp import web

from smg._fast.front import Front
from smg._fast.head import MAX_HEAD_BYTES
from smg._fast.ingress import Ingress
from smg._fast.limits import Counts
from smg.api.surfaces import SURFACES
from smg.backends.http import tls_context
from smg.config.model import AIOHTTP, Config
from smg.server import compose, compose_admission, compose_control, compose_pairs, compose_state
from smg.server.app import build_app, build_probe_app
from smg.server.data_plane import DataPlane
from smg.server.deps import Deps
from smg.server.handover import handing_over
from smg.server.listener import Listener, StartError, server_tls, tcp_sockets, unix_socket
from smg.server.measures import Watch, build_metrics_app, count_routes
from smg.server.plugs import plug_loads, plug_probes, plug_router
from smg.telemetry import logs
from smg.telemetry.metrics import Metrics
from smg.telemetry.spans import SpanSender
from smg.workers.engine import EngineClient, open_session
from smg.workers.wedge import WedgeWatch

log = logs.get("lifecycle")

SETTLE_S = 5.0
"""How long the gateway still accepts after SIGTERM, so that balancers see `/readiness` fail first."""
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
        self.config = config
        self.cut = asyncio.Event()
        self.draining = False
        self.counts = Counts()
        self.metrics = Metrics(config.telemetry.prometheus_duration_buckets)
        self.limits = compose.limits(loop, config)
        self._listener = Listener()
        self._runners: list[web.AppRunner] = []
        self._background: list[asyncio.Task[None]] = []
        self._spans: SpanSender | None = None

    async def start(self) -> None:
        """Listen at once; workers register in the background. Raises `StartError`."""
        sockets = self._sockets()
        session = self._session = open_session()
        upstream = self.config.upstream
        tls = tls_context(list(upstream.ca_cert_paths), upstream.client_cert_path, upstream.client_key_path)
        client = EngineClient(session, tls)
        self.registry = compose.registry(self.config, self.limits, self.counts, tls)
        self.registrar = compose.registrar(self.config, self.registry, client, self.metrics)
        tokens = compose_control.tokens(self.config, session)
        deps = compose.deps(self.config, self.registry, self.registrar, client, lambda: self.draining, tokens)
        if tokens is not None:
            self._run(tokens.run(), "issuer keys")
        link = self.link = compose_state.link(self.config, self.metrics)
        if link is not None:
            self._run(link.run(), "shared state")
        router = self.router = compose.router(self.config, self.registry, link)
        self.guards = compose_admission.guards(
            self.config, self.registry, asyncio.get_running_loop(), compose_state.budgets(link)
        )
        self.realtime = compose.realtime(self.config, deps, router, self.guards, self.metrics)
        self.calls = compose.realtime_calls(deps, self.realtime)
        console = compose.console(deps, self.metrics, self.guards)
        spans = self._spans = compose.span_sender(self.config, self.metrics)
        serve = compose.serving(self.config, deps, self.metrics, router, self.guards, spans)
        app = build_app(
            dataclasses.replace(deps, serve=DataPlane(serve).answer), self.realtime, self.calls, console
        )
        count_routes(app, self.metrics)
        runner = await self._runner(app)
        assert runner.server is not None
        routes = {surface.path.encode(): surface for surface in SURFACES}
        is_lent = self.config.listen.data_path == AIOHTTP
        self.front = Front(
            self.limits,
            self.counts,
            routes={} if is_lent else routes,
            lent=frozenset(routes) if is_lent else frozenset(),
            serve=serve,
            refuse=compose.refuse,
            make_fallback=handing_over(runner.server, lambda: self.draining),
        )
        self._watch = Watch(self.metrics, self.counts, self.registry, self.front)
        plug_router(self.metrics, router)
        plug_probes(self.metrics, self.registrar)
        compose_admission.plug_admission(self.metrics, self.guards)
        self._run(console.run(), "console")
        await self._listen(sockets, deps)
        if not self.config.workers.disable_load_monitoring:
            monitor = compose.load_monitor(self.config, self.registry, self.registrar, client, router)
            plug_loads(self.metrics, monitor)
            self._run(monitor.run(), "load monitor")
        if self.config.protection.worker_wedge_secs:
            wedges = WedgeWatch(self.registry, self.config.protection.worker_wedge_secs)
            self._run(wedges.run(), "wedge watch")
        self.registrar.add_configured()
        discovery = compose_control.discovery(self.config, self.registry, self.registrar, self.metrics)
        if discovery is not None:
            self._run(discovery.run(), "discovery")
        for spec in compose_pairs.specs(self.config):
            self.registrar.add(spec)
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
        await self.realtime.close()
        self.front.abort_all()
        log.info("drained")

    async def close(self) -> None:
        """Let go of everything that was started, in whatever state it is."""
        self._listener.stop()
        if hasattr(self, "front"):
            self.front.abort_all()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if hasattr(self, "registrar"):
            await self.registrar.close()
            for worker in self.registry.all():
                if worker.backend is not None:
                    worker.backend.close()
        for runner in self._runners:
            await runner.cleanup()
        if hasattr(self, "_session"):
            await self._session.close()
        if hasattr(self, "_watch"):
            self._watch.close()
        if hasattr(self, "calls"):
            await self.calls.close()
        if hasattr(self, "guards"):
            self.guards.close()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)
        self.limits.close()

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something until the gateway ends."""
        self._background.append(asyncio.create_task(work, name=name))

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
        metrics_app = build_metrics_app(self.metrics)
        await self._side_port(metrics_app, metrics_host, telemetry.prometheus_port, "--prometheus-port")
        if listen.health_check_port is not None:
            probe_app, port = build_probe_app(deps), listen.health_check_port
            await self._side_port(probe_app, listen.host, port, "--health-check-port")

    async def _side_port(self, app: web.Application, host: str, port: int, option: str) -> None:
        runner = await self._runner(app)
        for one in tcp_sockets(host, port, option):
            await web.SockSite(runner, one).start()

    async def _runner(self, app: web.Application) -> web.AppRunner:
        runner = web.AppRunner(
            app,
            handle_signals=False,
            access_log=None,
            shutdown_timeout=1.0,
            # The ingress has measured the head already, and tokens with many roles are long.
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
        )
        await runner.setup()
        self._runners.append(runner)
        return runner
