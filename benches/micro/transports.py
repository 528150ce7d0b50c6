"""A transport that goes nowhere, and a gateway whose connections use it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from benches import inputs
from smg._fast.egress import Egress
from smg.config.model import Config, Routing
from smg.config.specs import WorkerUrl
from smg.server.lifecycle import Server
from smg.workers.breaker import Breaker
from smg.workers.worker import ModelCard, Status, Worker


class Nowhere:
    """Takes what is written and counts it."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += sum(map(len, pieces))

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: Any) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None: ...


async def start_server() -> Server:
    """A whole gateway on free loopback ports, without workers."""
    config = Config(routing=Routing(policy="round_robin"))
    replace = msgspec.structs.replace
    listen = replace(config.listen, host="127.0.0.1", port=0)
    telemetry = replace(config.telemetry, prometheus_host="127.0.0.1", prometheus_port=0, log_level="error")
    server = Server(replace(config, listen=listen, telemetry=telemetry))
    await server.start()
    return server


class Awaited(Nowhere):
    """Tells when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self._wrote = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        self._wrote.set()

    def writelines(self, pieces: list[bytes]) -> None:
        super().writelines(pieces)
        self._wrote.set()

    async def next_write(self) -> None:
        """Wait for what has been written since this was last asked, or will be."""
        await self._wrote.wait()
        self._wrote.clear()


def add_worker(server: Server) -> tuple[Egress, Awaited]:
    """A ready worker whose pool holds one connection to nowhere."""
    breaker = Breaker(10, 3, 60.0, 120.0, True)
    worker = Worker(WorkerUrl.parse("http://127.0.0.1:9"), breaker, cards=[ModelCard(inputs.MODEL)])
    server.registry.add(worker)
    server.registry.set_status(worker, Status.READY)
    pool: Any = worker.backend._pool  # type: ignore[union-attr]
    egress: Egress = pool.make()
    transport = Awaited()
    egress.connection_made(transport)  # type: ignore[arg-type]
    pool.idle.append(egress)
    return egress, transport
