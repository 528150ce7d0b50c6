"""What is measured of each gateway. A row holds the values of all rounds by figure."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches import inputs
from benches.load import client
from benches.load.client import Load
from benches.load.processes import Gateway

EVENTS = 200
Rows = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Plan:
    """How long, how often, how many; `use_wrk`: with wrk or with our own client."""

    seconds: float
    rounds: int
    idle_connections: int
    open_streams: int
    use_wrk: bool
    folder: Path


CONNECTIONS = {"chat": 32, "big": 4, "sse": 32, "latency": 1, "gaps": 16}
BODIES: dict[str, Callable[[], bytes]] = {
    "chat": inputs.chat,
    "big": lambda: inputs.chat(1_000_000),
    "sse": lambda: inputs.chat(stream=True),
    "latency": inputs.chat,
    "gaps": lambda: inputs.chat(stream=True),
}
CASES = (*CONNECTIONS, "memory")


def measure(case: str, gateways: Sequence[Gateway], plan: Plan, rows: Rows) -> None:
    """Run one case on all gateways, in turn in each round, and add to their rows."""
    if case == "memory":
        for gateway in gateways:
            _measure_memory(gateway, plan, rows[gateway.name])
        return
    body = BODIES[case]()
    for gateway in gateways:  # pools filled, code paths touched
        _load(case, gateway.port, body, min(1.0, plan.seconds), plan)
    for _ in range(plan.rounds):
        for gateway in gateways:
            before = gateway.cpu_seconds()
            load = _load(case, gateway.port, body, plan.seconds, plan)
            spent = gateway.cpu_seconds() - before
            if load.errors or not load.requests:
                said = f"! {gateway.name}, {case}: {load.errors} errors in {load.requests} requests"
                print(said, file=sys.stderr)
            _add(case, rows[gateway.name], load, spent)


def _load(case: str, port: int, body: bytes, seconds: float, plan: Plan) -> Load:
    connections = CONNECTIONS[case]
    if plan.use_wrk and case != "gaps":
        return client.wrk(port, body, seconds, connections, plan.folder)
    return client.ours(port, body, seconds, connections)


def _add(case: str, row: dict[str, list[float]], load: Load, cpu_seconds: float) -> None:
    figures: dict[str, float | None] = {"errors": float(load.errors)}
    if case == "latency":
        figures |= {"latency p50, µs": load.p50_us, "latency p99, µs": load.p99_us}
    elif case == "gaps":
        figures |= {"first event p50, µs": client.percentile(load.first_us, 0.5)}
        figures |= {"gap p99, µs": client.percentile(load.gaps_us, 0.99)}
    elif load.requests:
        units = load.requests * (EVENTS if case == "sse" else 1)
        unit = {"chat": "request", "big": "1 MB request", "sse": "event"}[case]
        figures |= {f"CPU per {unit}, µs": cpu_seconds / units * 1e6}
        figures |= {f"{case}, requests/s": load.requests / load.seconds}
    for name, value in figures.items():
        if value is not None:
            row.setdefault(name, []).append(value)


def _measure_memory(gateway: Gateway, plan: Plan, row: dict[str, list[float]]) -> None:
    idle = _held_kib(gateway, inputs.request(inputs.chat()), plan.idle_connections)
    streams = _held_kib(gateway, inputs.request(inputs.chat(stream=True)), plan.open_streams)
    row["idle connection, KiB"] = [idle]
    row["open stream, KiB"] = [streams]


def _held_kib(gateway: Gateway, request: bytes, count: int) -> float:
    """Growth of the gateway's memory for each of `count` connections that were answered and stay open."""
    before, held = gateway.resident_kib(), []
    try:
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", gateway.port), timeout=10)
            held.append(one)
            one.sendall(request)
            one.recv(65536)
        time.sleep(0.3)
        return (gateway.resident_kib() - before) / count
    finally:
        for one in held:
            one.close()
