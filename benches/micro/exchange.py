"""Whole exchanges through ingress, `serve`, egress and relay, with transports that go nowhere: what is
left is the gateway's own work, without the kernel's."""

from __future__ import annotations

import time

import pyperf
import uvloop

from benches import inputs
from benches.micro.transports import Nowhere, add_worker, start_server
from smg._fast.ingress import Ingress

EVENTS = 200


def plain(loops: int, body: bytes) -> float:
    """Seconds for `loops` requests with a plain answer."""

    async def run() -> float:
        server = await start_server()
        egress, upstream = add_worker(server)
        ingress, client = Ingress(server.front), Nowhere()
        ingress.connection_made(client)  # type: ignore[arg-type]
        request, answer = inputs.request(body), inputs.answer()
        begun = time.perf_counter()
        for _ in range(loops):
            ingress.data_received(request)
            await upstream.next_write()  # a large body is decoded in a thread
            egress.data_received(answer)
        spent = time.perf_counter() - begun
        assert client.written >= loops * len(answer), "not every request was answered"
        await server.close()
        return spent

    return uvloop.run(run())


def stream(loops: int, per_read: int) -> float:
    """Seconds for `loops` events, relayed `per_read` at a time."""

    async def run() -> float:
        server = await start_server()
        egress, _ = add_worker(server)
        ingress, client = Ingress(server.front), Nowhere()
        ingress.connection_made(client)  # type: ignore[arg-type]
        request, events = inputs.request(inputs.chat(stream=True)), inputs.EVENT * per_read
        spent, left = 0.0, loops
        while left > 0:
            ingress.data_received(request)
            egress.data_received(inputs.STREAM_HEAD)
            count = min(left, EVENTS)
            begun = time.perf_counter()
            for _ in range(count):
                egress.data_received(events)
            spent += time.perf_counter() - begun
            egress.data_received(inputs.STREAM_END)
            left -= count
        assert client.written >= loops * len(events), "not every event was relayed"
        await server.close()
        return spent / per_read

    return uvloop.run(run())


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.exchange"))
    for name, size in (("2 kB", 1_600), ("64 kB", 64_000), ("1 MB", 1_000_000)):
        runner.bench_time_func(f"exchange, {name}", plain, inputs.chat(size))
    for per_read in (1, 8):
        runner.bench_time_func(f"event, {per_read} a read", stream, per_read)


if __name__ == "__main__":
    main()
