"""Real processes for tests: started, waited for with a bound, and ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.waiting import START_S, wait_until

REPOSITORY = Path(__file__).parents[2]
STOP_SECS = 20.0


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").glob("*/children")
            for child in task.read_text().split()
        ]
    return []


class Running:
    """A process; its output and errors go to one file each."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._folder = folder

    @property
    def output(self) -> str:
        return (self._folder / "stdout").read_text()

    @property
    def errors(self) -> str:
        return (self._folder / "stderr").read_text()

    def wait_for(self, text: str, bound_s: float = START_S) -> str:
        """Waits for a text in the output and returns the whole output."""
        wait_until(
            lambda: text in self.output or self.process.poll() is not None,
            f"{text!r} in output",
            bound_s,
        )
        if text not in self.output:
            pytest.fail(
                f"ended with {self.process.returncode} before {text!r}:\n{self.output}\n{self.errors}"
            )
        return self.output

    def stop(self, number: int = signal.SIGTERM, timeout_secs: float = STOP_SECS) -> int:
        """Sends a signal and returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout_secs)

    def wait(self, bound_s: float = START_S) -> int:
        return self.process.wait(bound_s)


class Processes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Running] = []

    def smg(self, *words: str, env: Mapping[str, str] | None = None) -> Running:
        """Starts `smg` with these words."""
        return self.start([sys.executable, "-m", "smg", *words], env)

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> Running:
        folder = self._folder / f"process-{len(self._running)}"
        folder.mkdir()
        path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": path, **(env or {})},
            )
        running = Running(process, folder)
        self._running.append(running)
        return running

    def close(self) -> None:
        for running in self._running:
            if running.process.poll() is None:
                running.process.terminate()
        for running in self._running:
            try:
                running.process.wait(STOP_SECS)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
