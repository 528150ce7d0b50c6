"""Soak: many streams for minutes, clients that leave, engines that are killed and come back.

    python -m benches.load.soak --seconds 300 --streams 300

Checks every byte of every stream against what the engine says without a gateway, that no stream
hangs, and that open files, tasks and memory return to where they were. Exit status 1 if not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import uvloop

HANG_S = 60.0
PROMPTS = 64
MODEL = "simulated-model"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Engines:
    """Simulated engines on fixed ports, one process each."""

    def __init__(self, count: int, tokens: int, max_running: int = 4096) -> None:
        self.ports = [free_port() for _ in range(count)]
        self._tokens = tokens
        self._max_running = max_running
        self._running: dict[int, asyncio.subprocess.Process] = {}

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    async def start(self, port: int) -> None:
        self._running[port] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "smg", "sim", "--port", str(port), "--model", MODEL),
            *("--decode-tps", "50", "--output-tokens", str(self._tokens)),
            *("--max-running", str(self._max_running)),
            stdout=asyncio.subprocess.DEVNULL,
        )
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.05)

    async def kill(self, port: int) -> None:
        process = self._running.pop(port)
        process.kill()
        await process.wait()

    async def close(self) -> None:
        for port in list(self._running):
            await self.kill(port)


def payload(prompt: str, headers: str = "", stream: bool = True) -> bytes:
    """A chat as bytes; `headers` are further lines, each with its CR LF."""
    call = {"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": prompt}]}
    body = json.dumps(call).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\n" + headers
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Broken(Exception):
    """What came back is not what may come back."""


async def answer(reader: asyncio.StreamReader, leave_after: int | None) -> tuple[int, bytes, bool]:
    """Status, payload and whether it was read to its end; strict about the framing."""
    head = await reader.readuntil(b"\r\n\r\n")
    return await rest_of_answer(reader, head, leave_after)


async def rest_of_answer(
    reader: asyncio.StreamReader, head: bytes, leave_after: int | None
) -> tuple[int, bytes, bool]:
    status = int(head.split(b" ", 2)[1])
    lower = head.lower()
    if b"content-length:" in lower:
        size = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        return status, await reader.readexactly(size), True
    if b"transfer-encoding: chunked" not in lower:
        raise Broken(f"no framing: {head!r}")
    got, chunks = bytearray(), 0
    while True:
        size = int((await reader.readuntil(b"\r\n")).strip(), 16)
        piece = await reader.readexactly(size + 2)
        if piece[-2:] != b"\r\n":
            raise Broken("a chunk does not end with CR LF")
        if size == 0:
            return status, bytes(got), True
        got += piece[:-2]
        chunks += 1
        if leave_after is not None and chunks >= leave_after:
            return status, bytes(got), False


def text_of(stream: bytes, complete: bool) -> tuple[str, bool]:
    """The text of a stream, and whether it ended with an error frame."""
    text, failed, done = "", False, False
    frames = stream.split(b"\n\n")
    if complete and frames[-1] != b"":
        raise Broken(f"the stream ends inside a frame: {frames[-1][:80]!r}")
    for frame in frames[:-1]:
        if frame == b": ping" or not frame:
            continue
        if done:
            raise Broken(f"a frame after [DONE]: {frame[:80]!r}")
        if not frame.startswith(b"data: "):
            if not failed and complete:
                continue  # the torn frame of a broken stream
            raise Broken(f"not a frame: {frame[:80]!r}")
        if frame == b"data: [DONE]":
            done = True
            continue
        try:
            event = json.loads(frame[6:])
        except ValueError:
            continue  # torn by a killed engine; an error frame must follow, which is checked below
        if "error" in event:
            failed = True
            continue
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
    if complete and not done:
        raise Broken("a complete stream without [DONE]")
    return text, failed


def what_became(wanted: str, stream: bytes, complete: bool) -> str:
    """Of a stream whose text should be `wanted`: left, broken or whole."""
    text, failed = text_of(stream, complete)
    if complete and not failed and text != wanted:
        raise Broken(f"wrong text: {text[:60]!r} instead of {wanted[:60]!r}")
    if not wanted.startswith(text):
        raise Broken(f"wrong text in a part: {text[-60:]!r}")
    return "left" if not complete else "broken" if failed else "whole"


class Soak:
    def __init__(self, port: int, expected: dict[str, str], seed: int) -> None:
        self.port = port
        self.expected = expected
        self.random = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.faults: list[str] = []

    async def stream(self) -> None:
        prompt = self.random.choice(list(self.expected))
        leave_after = self.random.randint(1, 30) if self.random.random() < 0.25 else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(payload(prompt))
            if leave_after is not None and self.random.random() < 0.2:
                self.seen["left at once"] += 1
                return
            status, body, complete = await answer(reader, leave_after)
            self.judge(prompt, status, body, complete)
        finally:
            writer.transport.abort()

    def judge(self, prompt: str, status: int, body: bytes, complete: bool) -> None:
        if status != 200:
            if status not in (502, 503) or "error" not in json.loads(body):
                raise Broken(f"status {status}: {body[:100]!r}")
            self.seen[f"status {status}"] += 1
            return
        self.seen[what_became(self.expected[prompt], body, complete)] += 1

    async def client(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            try:
                await asyncio.wait_for(self.stream(), HANG_S)
            except TimeoutError:
                self.faults.append("a stream hung")
            except (Broken, ValueError, KeyError) as error:
                self.faults.append(str(error))
            except (OSError, asyncio.IncompleteReadError) as error:
                self.faults.append(f"connection: {type(error).__name__}")

    async def run(self, seconds: float, streams: int) -> None:
        deadline = time.monotonic() + seconds
        await asyncio.gather(*(self.client(deadline) for _ in range(streams)))


async def disturb(engines: Engines, seconds: float, rng: random.Random) -> int:
    """Kill an engine every few seconds and start it again; at least one stays."""
    deadline, kills = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        await asyncio.sleep(rng.uniform(3, 6))
        port = rng.choice(engines.ports)
        await engines.kill(port)
        kills += 1
        await asyncio.sleep(rng.uniform(0.5, 2))
        await engines.start(port)
    return kills


def measure(pid: int, metrics_port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=5) as scraped:
        text = scraped.read().decode()

    def sum_of(name: str) -> float:
        lines = (line for line in text.splitlines() if line.startswith(name) and line[len(name)] in " {")
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {
        "rss_mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "open_files": len(os.listdir(f"/proc/{pid}/fd")),
        "tasks": sum_of("smg_loop_tasks"),
        "connections": sum_of("smg_http_connections_active"),
        "worker_connections": sum_of("smg_upstream_connections"),
        "in_flight": sum_of("smg_worker_requests_active"),
    }


async def settled(pid: int, metrics_port: int) -> dict[str, float]:
    """The figures once nothing is in flight and the idle worker connections have been closed."""
    for _ in range(200):
        figures = await asyncio.to_thread(measure, pid, metrics_port)
        if not figures["connections"] and not figures["worker_connections"] and not figures["in_flight"]:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    return await asyncio.to_thread(measure, pid, metrics_port)


async def expected_texts(url: str) -> dict[str, str]:
    texts = {}
    port = int(url.rpartition(":")[2])
    for number in range(PROMPTS):
        prompt = f"soak prompt {number} " + "lorem ipsum " * number
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(payload(prompt))
        _, body, complete = await answer(reader, None)
        writer.close()
        texts[prompt] = text_of(body, complete)[0]
    return texts


async def main(given: argparse.Namespace) -> int:
    engines = Engines(given.engines, given.tokens)
    port, metrics_port = free_port(), free_port()
    for engine_port in engines.ports:
        await engines.start(engine_port)
    expected = await expected_texts(engines.urls[0])
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "smg", "launch", "--host", "127.0.0.1", "--port", str(port)),
        *(
            "--prometheus-port",
            str(metrics_port),
            "--log-level",
            "error",
            "--health-check-interval-secs",
            "1",
        ),
        *("--worker-urls", *engines.urls),
    )
    try:
        ready = f"http://127.0.0.1:{port}/readiness"
        for _ in range(200):
            try:
                await asyncio.to_thread(lambda: urllib.request.urlopen(ready, timeout=2).read())
                break
            except OSError:
                await asyncio.sleep(0.1)
        soak = Soak(port, expected, given.seed)
        # The same for a while first: only what grows after that is growth.
        await disturbed(soak, engines, given.warm_up, given)
        before = await settled(gateway.pid, metrics_port)
        kills = await disturbed(soak, engines, given.seconds, given)
        after = await settled(gateway.pid, metrics_port)
    finally:
        if gateway.returncode is None:
            gateway.send_signal(signal.SIGINT)
            await gateway.wait()
        await engines.close()
    return report(soak, kills, before, after)


async def disturbed(soak: Soak, engines: Engines, seconds: float, given: argparse.Namespace) -> int:
    """Load while engines come and go; how many were killed."""
    disturbing = asyncio.create_task(disturb(engines, seconds, random.Random(given.seed)))
    await soak.run(seconds, given.streams)
    return await disturbing


def report(soak: Soak, kills: int, before: dict[str, float], after: dict[str, float]) -> int:
    print(f"streams: {dict(soak.seen)}; engines killed: {kills}; faults: {len(soak.faults)}")
    for fault, count in Counter(soak.faults).most_common(10):
        print(f"  {count} x {fault}")
    bad = bool(soak.faults)
    for name, value in after.items():
        grown = value > before[name] * 1.02 + (0 if name == "rss_mib" else 0.5)
        bad = bad or grown
        print(f"{name:20} {before[name]:10.1f} {after[name]:10.1f}{'   GROWN' if grown else ''}")
    return int(bad)


def parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--warm-up", type=float, default=150, help="seconds of the same load before")
    options.add_argument("--streams", type=int, default=300)
    options.add_argument("--engines", type=int, default=4)
    options.add_argument("--tokens", type=int, default=40)
    options.add_argument("--seed", type=int, default=1)
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(uvloop.run(main(parse())))
