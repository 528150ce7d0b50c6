"""What the process takes of the machine, and how late its event loop is."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

from smg._fast.limits import Spread
from smg.telemetry.exposition import Sample
from smg.telemetry.metrics import Metrics

PROBE_S = 0.5
_SELF = Path("/proc/self")
_BOOT = Path("/proc/stat")


class LoopLag:
    """Runs a timer twice a second and counts how late it comes: what other work has kept the loop from."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.spread = Spread()
        self._loop = loop
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        # Not the loop's clock, which stands still while callbacks run.
        self._due = time.monotonic() + PROBE_S
        self._timer = self._loop.call_later(PROBE_S, self._probe)

    def _probe(self) -> None:
        self.spread.add(max(time.monotonic() - self._due, 0.0))
        self._arm()


def plug_process(metrics: Metrics) -> None:
    """The names are those of Prometheus's client libraries, which dashboards know."""
    started = _started()

    def of_rusage() -> list[Sample]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return [((), used.ru_utime + used.ru_stime)]

    metrics.plug_slow("process_cpu_seconds_total", of_rusage)
    metrics.plug_slow("process_resident_memory_bytes", lambda: _pages(1))
    metrics.plug_slow("process_virtual_memory_bytes", lambda: _pages(0))
    metrics.plug_slow("process_open_fds", _open_fds)
    metrics.plug_slow("process_max_fds", lambda: [((), resource.getrlimit(resource.RLIMIT_NOFILE)[0])])
    metrics.plug_slow("process_start_time_seconds", lambda: [((), started)] if started else [])


def _pages(field: int) -> list[Sample]:
    """A field of statm in bytes; nothing where there is no /proc."""
    try:
        pages = (_SELF / "statm").read_bytes().split()[field]
    except OSError:
        return []
    return [((), int(pages) * resource.getpagesize())]


def _open_fds() -> list[Sample]:
    try:
        # One of them is the listing's own.
        return [((), len(os.listdir(_SELF / "fd")) - 1)]
    except OSError:
        return []


def _started() -> float:
    """Seconds since the epoch, or 0 where there is no /proc."""
    try:
        # The name in parentheses may hold blanks; start time is the 22nd field.
        ticks = int((_SELF / "stat").read_bytes().rpartition(b")")[2].split()[19])
        booted = next(line for line in _BOOT.read_bytes().splitlines() if line.startswith(b"btime"))
    except (OSError, StopIteration):
        return 0.0
    return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
