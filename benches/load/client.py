"""Loads from a client: wrk where it is installed, and one of our own that also sees single events."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches import inputs
from benches.load.processes import CPUS

MAX_ANSWER = 1 << 22
TIMEOUT_SECS = 20.0
SCALE = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass
class Load:
    """What a load saw; times in microseconds."""

    requests: int = 0
    errors: int = 0
    seconds: float = 0.0
    p50_us: float | None = None
    p99_us: float | None = None
    first_us: list[float] = field(default_factory=list)
    gaps_us: list[float] = field(default_factory=list)


def percentile(values: Sequence[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def wrk(port: int, body: bytes, seconds: float, connections: int, folder: Path) -> Load:
    """Whole seconds only; raises when wrk fails."""
    script = folder / "load.lua"
    script.write_text(
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        f"wrk.body = [==[{body.decode()}]==]\n"
    )
    whole = max(1, round(seconds))
    command = ["wrk", "-t1", f"-c{connections}", f"-d{whole}", "--latency", "--timeout", "20", "-s"]
    command += [str(script), f"http://127.0.0.1:{port}/v1/chat/completions"]
    with _on_last_cpu():
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _read_wrk(out, whole)


def _read_wrk(out: str, seconds: float) -> Load:
    load = Load(seconds=seconds)
    for line in out.splitlines():
        words = line.split()
        if "requests in" in line:
            load.requests = int(words[0])
        elif words[:1] in (["50%"], ["99%"]):
            number = words[1].rstrip("ums")
            value = float(number) * SCALE[words[1][len(number) :]]
            if words[0] == "50%":
                load.p50_us = value
            else:
                load.p99_us = value
        elif "Non-2xx" in line:
            load.errors += int(words[-1])
        elif "Socket errors" in line:
            load.errors += sum(int(word.rstrip(",")) for word in words if word.rstrip(",").isdigit())
    return load


def ours(port: int, body: bytes, seconds: float, connections: int) -> Load:
    """The same load from this process, for machines without wrk, and to see the events of streams."""

    async def run() -> Load:
        load = Load()
        latencies: list[float] = []
        begun = time.perf_counter()
        clients = [_client(port, body, begun + seconds, load, latencies) for _ in range(connections)]
        await asyncio.gather(*clients)
        load.seconds = time.perf_counter() - begun
        load.p50_us, load.p99_us = percentile(latencies, 0.5), percentile(latencies, 0.99)
        return load

    with _on_last_cpu():
        return asyncio.run(run())


@contextlib.contextmanager
def _on_last_cpu():  # type: ignore[no-untyped-def]
    """The load shares a CPU with the engines, never with the gateway."""
    if len(CPUS) == 1:
        yield
        return
    os.sched_setaffinity(0, {CPUS[-1]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, CPUS)


async def _client(port: int, body: bytes, until: float, load: Load, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MAX_ANSWER)
    request = inputs.request(body)
    try:
        while (begun := time.perf_counter()) < until:
            writer.write(request)
            try:
                async with asyncio.timeout(TIMEOUT_SECS):
                    is_good = await _read_answer(reader, begun, load)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                load.errors += 1
                return
            load.errors += not is_good
            load.requests += 1
            latencies.append((time.perf_counter() - begun) * 1e6)
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader, begun: float, load: Load) -> bool:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" not in head:
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        await reader.readexactly(length)
        return head.startswith(b"http/1.1 200")
    last = 0.0
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        await reader.readexactly(size + 2)
        now = time.perf_counter()
        if last:
            load.gaps_us.append((now - last) * 1e6)
        else:
            load.first_us.append((now - begun) * 1e6)
        last = now
    await reader.readexactly(2)
    return head.startswith(b"http/1.1 200")
