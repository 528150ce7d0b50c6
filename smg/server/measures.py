"""The metrics port, and which live objects are read when it is scraped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from aiohttp import web

import smg
from smg._fast.front import Front
from smg._fast.limits import Counts, Spread
from smg.errors import ERROR_CODE_HEADER
from smg.server.data_plane import ExchangeAnswer
from smg.server.deps import Handler
from smg.telemetry.exposition import CONTENT_TYPE, Sample
from smg.telemetry.metrics import Metrics
from smg.telemetry.process import LoopLag, plug_process
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def build_metrics_app(metrics: Metrics) -> web.Application:
    """`GET /metrics`: the numbers are copied here and rendered in a thread, since the loop has streams to
    relay. One scrape at a time."""
    turn = asyncio.Lock()

    async def show(request: web.Request) -> web.Response:
        async with turn:
            taken = metrics.snapshot()
            body = await asyncio.get_running_loop().run_in_executor(None, metrics.render, taken)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", show)])
    return app


def count_routes(app: web.Application, metrics: Metrics) -> None:
    """Count what aiohttp answers, by the routes' patterns; must come before the application starts.
    Exchanges are counted when they are recorded."""

    @web.middleware
    async def counting(request: web.Request, handler: Handler) -> web.StreamResponse:
        begun = time.monotonic()
        response = await handler(request)
        if isinstance(response, ExchangeAnswer):
            return response
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else "other"
        method = request.method if request.method in _METHODS else "other"
        code = response.headers.get(ERROR_CODE_HEADER, "")
        metrics.routes.add((method, path, str(response.status), code))
        metrics.route_durations.add((method, path), time.monotonic() - begun)
        return response

    app.middlewares.insert(0, counting)


class Watch:
    """Live objects plugged into the metrics; `close` ends the probing of the loop."""

    def __init__(self, metrics: Metrics, counts: Counts, registry: Registry, front: Front) -> None:
        loop = asyncio.get_running_loop()
        self._lag = LoopLag(loop)
        metrics.exchanges.live = lambda: {worker.url for worker in registry.all()}
        metrics.exchanges.serves = lambda model: _is_listed(registry, model)
        _plug_connections(metrics, counts, front)
        _plug_workers(metrics, registry)
        metrics.plug("smg_build_info", lambda: [((smg.__version__,), 1)])
        metrics.plug("smg_loop_tasks", lambda: [((), len(asyncio.all_tasks(loop)))])
        metrics.plug_rows("smg_loop_lag_seconds", Spread.bounds(), lambda: [((), self._lag.spread.row())])
        plug_process(metrics)

    def close(self) -> None:
        self._lag.close()


def _plug_connections(metrics: Metrics, counts: Counts, front: Front) -> None:
    plug = metrics.plug
    plug("smg_http_connections_active", lambda: [((), counts.connections)])
    plug("smg_http_busy_connections", lambda: [((), front.busy)])
    plug("smg_http_exchanges_total", lambda: [(("fast",), counts.fast), (("slow",), counts.slow)])
    plug("smg_http_refused_total", lambda: [((), counts.refused)])
    plug("smg_http_client_left_total", lambda: [((), counts.client_left)])
    plug("smg_upstream_connections", lambda: [((), counts.upstreams)])
    plug("smg_upstream_connects_total", lambda: [((), counts.connects)])
    bounds = Spread.bounds()
    metrics.plug_rows("smg_router_event_gap_seconds", bounds, lambda: [((), counts.gaps.row())])
    metrics.plug_rows("smg_upstream_connect_seconds", bounds, lambda: [((), counts.connecting.row())])


def _plug_workers(metrics: Metrics, registry: Registry) -> None:
    def each(read: Callable[[Worker], float]) -> Callable[[], Iterable[Sample]]:
        return lambda: [((worker.url,), read(worker)) for worker in registry.all()]

    def transitions() -> Iterable[Sample]:
        live = metrics.exchanges.live()
        values = metrics.breaker_transitions.values
        for labels in [labels for labels in values if labels[0] not in live]:
            del values[labels]
        return values.items()

    plug = metrics.plug
    plug("smg_worker_requests_active", each(lambda worker: worker.load))
    plug("smg_worker_health", each(lambda worker: int(worker.status is Status.READY)))
    plug("smg_worker_http2", each(lambda worker: 0))
    plug("smg_worker_cb_state", each(lambda worker: int(worker.breaker.state)))
    plug("smg_worker_cb_consecutive_failures", each(lambda worker: worker.breaker.consecutive_failures))
    plug("smg_worker_cb_consecutive_successes", each(lambda worker: worker.breaker.consecutive_successes))
    plug("smg_worker_cb_transitions_total", transitions)
    plug("smg_worker_cb_outcomes_total", lambda: _breaker_outcomes(registry))
    plug("smg_worker_pool_size", lambda: _pool_sizes(registry))
    plug("smg_worker_engine_running", lambda: _reported(registry, "running_requests"))
    plug("smg_worker_engine_waiting", lambda: _reported(registry, "waiting_requests"))
    plug("smg_worker_engine_cache_usage", lambda: _reported(registry, "token_usage"))


def _is_listed(registry: Registry, model: str) -> bool:
    """Does a worker list the model? A provider that takes any name makes none of them known."""
    entry = registry.find(model)
    return entry is not None and any(model in worker.models for worker in entry.workers)


def _breaker_outcomes(registry: Registry) -> Iterable[Sample]:
    for worker in registry.all():
        yield (worker.url, "success"), worker.breaker.successes
        yield (worker.url, "failure"), worker.breaker.failures


def _pool_sizes(registry: Registry) -> Iterable[Sample]:
    sizes: dict[tuple[str, ...], int] = {}
    for worker in registry.all():
        for model in worker.models or ("unknown",):
            labels = (worker.worker_type, worker.connection_mode, model)
            sizes[labels] = sizes.get(labels, 0) + 1
    return sizes.items()


def _reported(registry: Registry, member: str) -> Iterable[Sample]:
    for worker in registry.all():
        if worker.report is not None:
            yield (worker.url,), getattr(worker.report, member)
