"""A whole gateway in the test's own loop, on free ports, with ready workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from smg.config.model import AIOHTTP, Config
from smg.config.specs import WorkerUrl
from smg.server.lifecycle import Server
from smg.workers.worker import Worker
from tests.waiting import until
from tests.wire.raw_client import RawClient, Response, connect
from tests.wire.scripted_worker import ScriptedWorker

_DEFAULTS: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 0,
    "prometheus_port": 0,
    "prometheus_host": "127.0.0.1",
    "policy": "round_robin",
    "sse_keepalive_secs": 0,
    "retry_initial_backoff_ms": 1,
    "retry_max_backoff_ms": 2,
}


def config(**options: Any) -> Config:
    """A configuration by flag names, whichever section they are in."""
    options = {**_DEFAULTS, **options}
    sections = {}
    for field in msgspec.structs.fields(Config):
        names = {one.name for one in msgspec.structs.fields(field.type)}  # type: ignore[arg-type]
        chosen = {name: options.pop(name) for name in list(options) if name in names}
        sections[field.name] = field.type(**chosen)  # type: ignore[operator]
    assert not options, f"no such options: {list(options)}"
    return Config(**sections)


class LiveGateway:
    """`server` is the gateway itself; the rest is how a test reaches it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.counts = server.counts
        self.clients: list[RawClient] = []

    @property
    def port(self) -> int:
        return next(urlsplit(url).port or 0 for url in self.server.urls if url.startswith("http"))

    @property
    def metrics(self) -> str:
        return self.server.metrics.render().decode()

    def ways(self, data_plane: int, others: int) -> tuple[int, int]:
        """What the counts of fast and slow exchanges are after so many of both kinds."""
        if self.server.config.listen.data_path == AIOHTTP:
            return 0, data_plane + others
        return data_plane, others

    async def client(self, **options: Any) -> RawClient:
        client = await connect(self.port, **options)
        self.clients.append(client)
        return client

    async def ask(self, request: bytes, method: str = "POST") -> Response:
        """One request on a connection of its own."""
        client = await self.client()
        try:
            return await client.ask(request, method)
        finally:
            client.close()

    def worker(self, scripted: ScriptedWorker) -> Worker:
        worker = self.server.registry.find_url(scripted.url)
        assert worker is not None
        return worker

    async def settled(self) -> None:
        """No request in flight: loads and busy connections are back at zero."""
        await until(lambda: not any(w.load for w in self.server.registry.all()), "loads are zero")
        await until(lambda: self.server.front.busy == 0, "no connection is busy")


@asynccontextmanager
async def running(*workers: ScriptedWorker, wait: bool = True, **options: Any) -> AsyncIterator[LiveGateway]:
    """Starts workers that were not, and a gateway in front of them; ends all of them."""
    for worker in workers:
        if not worker.port:
            await worker.start()
    urls = tuple(WorkerUrl.parse(worker.url) for worker in workers)
    server = Server(config(worker_urls=urls, **options))
    live = LiveGateway(server)
    try:
        await server.start()
        if wait:
            await until(lambda: server.registry.ready_count == len(workers), "all workers are ready")
        yield live
    finally:
        for client in live.clients:
            client.transport.abort()
        try:
            await until(lambda: server.front.busy == 0, "no connection is busy")
        finally:
            await server.close()
            for worker in workers:
                await worker.stop()
