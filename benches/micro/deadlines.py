"""`smg._fast.deadlines`: a client connection comes, waits in a deadline's list, and goes."""

from __future__ import annotations

import time

import pyperf
import uvloop

from benches.micro.transports import Nowhere, start_server
from smg._fast.ingress import Ingress


def come_and_go(loops: int, others: int) -> float:
    """Seconds for `loops` connections while `others` wait as well."""

    async def run() -> float:
        server = await start_server()
        transport = Nowhere()
        waiting = [Ingress(server.front) for _ in range(others)]
        for ingress in waiting:
            ingress.connection_made(transport)  # type: ignore[arg-type]
        begun = time.perf_counter()
        for _ in range(loops):
            ingress = Ingress(server.front)
            ingress.connection_made(transport)  # type: ignore[arg-type]
            ingress.connection_lost(None)
        spent = time.perf_counter() - begun
        assert server.limits.header_read.armed == others
        for ingress in waiting:
            ingress.connection_lost(None)
        await server.close()
        return spent

    return uvloop.run(run())


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.deadlines"))
    for others in (0, 10_000):
        runner.bench_time_func(f"connection among {others}", come_and_go, others)


if __name__ == "__main__":
    main()
