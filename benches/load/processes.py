"""Processes under measurement: started on free ports, pinned, their CPU time and memory read from the
kernel, and ended."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from benches import inputs

ROOT = Path(__file__).resolve().parents[2]
# Below the range that outgoing connections take their ports from.
PORTS = (18000, 31999)
START_SECS = 60.0
CPUS = sorted(os.sched_getaffinity(0))


class NotStarted(Exception):
    """The text says which gateway, and ends with what it printed."""


def free_port() -> int:
    source = random.SystemRandom()
    while True:
        port = source.randint(*PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                todo += map(int, task.read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process and its descendants so far."""
    total = 0
    for one in tree(pid):
        for stat in Path(f"/proc/{one}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(stat.read_text().split()[0])
    return total / 1e9


def resident_kib(pid: int) -> float:
    pages = 0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def start(command: Sequence[str], log: Path, cpu: int) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, on one CPU where there are several."""
    with log.open("wb") as to:
        process = subprocess.Popen(command, cwd=ROOT, stdout=to, stderr=to, start_new_session=True)
    if len(CPUS) > 1:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(process.pid, {CPUS[cpu]})
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Gateway:
    """Something that listens on `port` and stands before the engines."""

    def __init__(self, name: str, command: Sequence[str], port: int, folder: Path) -> None:
        self.name = name
        self.port = port
        self._log = folder / f"{name}.log"
        begun = time.monotonic()
        self._process = start(command, self._log, cpu=0)
        self._wait_until_it_serves()
        self.start_seconds = time.monotonic() - begun

    def _wait_until_it_serves(self) -> None:
        end = time.monotonic() + START_SECS
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        request = urllib.request.Request(url, inputs.chat(), {"Content-Type": "application/json"})
        while True:
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    answer.read()
                return
            except OSError:  # also while no worker is registered
                if self._process.poll() is not None or time.monotonic() > end:
                    self.stop()
                    said = self._log.read_text(errors="replace")[-2000:]
                    raise NotStarted(f"{self.name} did not start:\n{said}") from None
            time.sleep(0.02)

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def resident_kib(self) -> float:
        return resident_kib(self._process.pid)

    def stop(self) -> None:
        stop(self._process)


def haproxy_config(port: int, workers: Sequence[int]) -> str:
    servers = "\n".join(f"  server s{worker} 127.0.0.1:{worker}" for worker in workers)
    return f"""global
  nbthread 1
  maxconn 6000
defaults
  mode http
  timeout connect 5s
  timeout client 90s
  timeout server 90s
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  balance roundrobin
{servers}
"""


def command_of(name: str, words: str, port: int, workers: Sequence[int], folder: Path) -> list[str]:
    """The command line that starts the gateway `name`; `words` is what the user gave for it."""
    urls = [f"http://127.0.0.1:{worker}" for worker in workers]
    if name == "haproxy":
        config = folder / "haproxy.cfg"
        config.write_text(haproxy_config(port, workers))
        return [shutil.which("haproxy") or "haproxy", "-db", "-f", str(config)]
    if name == "aiohttp":
        return [sys.executable, "-m", "benches.load.plain_aiohttp", str(port), *urls]
    if "{port}" in words:
        filled = words.format(port=port, metrics=free_port(), workers=" ".join(urls), worker0=urls[0])
        return shlex.split(filled)
    options = f"--host 127.0.0.1 --port {port} --prometheus-port {free_port()} --log-level error"
    options += " --policy round_robin --worker-urls"
    return [*shlex.split(words), *options.split(), *urls]


@contextlib.contextmanager
def engines(count: int, events: int, interval_ms: float, folder: Path) -> Iterator[list[int]]:
    """Ports of mock engines, all in one process."""
    ports: list[int] = []
    while len(ports) < count:
        port = free_port()
        if port not in ports:
            ports.append(port)
    log = folder / "engines.log"
    words = ["-m", "benches.load.engine", *map(str, ports), "--events", str(events)]
    process = start([sys.executable, *words, "--interval-ms", str(interval_ms)], log, cpu=-1)
    try:
        end = time.monotonic() + START_SECS
        while "ready" not in log.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise NotStarted(f"the mock engines did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)
        yield ports
    finally:
        stop(process)
