"""The metrics port, and the gauges that are read from live objects when it is scraped."""

from __future__ import annotations

import asyncio

from aiohttp import web

from smg._fast.front import Front
from smg._fast.limits import Counts
from smg.telemetry.metrics import Metrics
from smg.workers.registry import Registry
from smg.workers.worker import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def build_metrics_app(metrics: Metrics) -> web.Application:
    """`GET /metrics`; rendered in a thread, since the loop has streams to relay."""

    async def show(request: web.Request) -> web.Response:
        body = await asyncio.get_running_loop().run_in_executor(None, metrics.render)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", show)])
    return app


def watch(metrics: Metrics, counts: Counts, registry: Registry, front: Front) -> None:
    """Say which live numbers are metrics."""
    loop = asyncio.get_running_loop()
    metrics.gauge(
        "smg_loop_tasks", "Tasks of the event loop.", (), lambda: [((), len(asyncio.all_tasks(loop)))]
    )
    metrics.gauge(
        "smg_http_connections_active", "Open client connections.", (), lambda: [((), counts.connections)]
    )
    metrics.gauge("smg_http_busy_connections", "Connections with a request.", (), lambda: [((), front.busy)])
    metrics.gauge(
        "smg_upstream_connections", "Open worker connections.", (), lambda: [((), counts.upstreams)]
    )
    metrics.gauge(
        "smg_worker_requests_active",
        "Requests in flight to a worker.",
        ("worker",),
        lambda: [((w.url,), w.load) for w in registry.all()],
    )
    metrics.gauge(
        "smg_worker_health",
        "1 when a worker is routed to.",
        ("worker",),
        lambda: [((w.url,), float(w.status is Status.READY)) for w in registry.all()],
    )
    metrics.gauge(
        "smg_worker_cb_state",
        "0 closed, 1 open, 2 half-open.",
        ("worker",),
        lambda: [((w.url,), int(w.breaker.state)) for w in registry.all()],
    )
    metrics.counter(
        "smg_http_exchanges_total",
        "Requests by the path they took: the compiled ingress or aiohttp.",
        ("way",),
        lambda: [(("fast",), counts.fast), (("slow",), counts.slow)],
    )
    metrics.counter(
        "smg_http_refused_total", "Requests that broke HTTP's rules.", (), lambda: [((), counts.refused)]
    )
    metrics.counter(
        "smg_http_client_left_total",
        "Exchanges whose client left before the end.",
        (),
        lambda: [((), counts.client_left)],
    )
    metrics.counter(
        "smg_upstream_connects_total", "Worker connections made.", (), lambda: [((), counts.connects)]
    )
