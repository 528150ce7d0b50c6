"""A transport that goes nowhere, and a gateway whose connections use it."""

from __future__ import annotations

from typing import Any

import msgspec

from benches import inputs
from smg._fast.egress import Egress, Pool
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


def add_worker(server: Server) -> tuple[Egress, Pool]:
    """A ready worker whose pool holds one connection to nowhere: the connection, the pool."""
    breaker = Breaker(10, 3, 60.0, 120.0, True)
    worker = Worker(WorkerUrl.parse("http://127.0.0.1:9"), breaker, cards=[ModelCard(inputs.MODEL)])
    server.registry.add(worker)
    server.registry.set_status(worker, Status.READY)
    pool: Pool = worker.backend._pool  # type: ignore[union-attr]
    egress: Egress = pool.make()
    egress.connection_made(Nowhere())  # type: ignore[arg-type]
    pool.idle.append(egress)
    return egress, pool
