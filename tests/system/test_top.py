"""`smg top` as a process, before a running gateway."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from smg.config.top import KEY_VARIABLE
from tests.system.processes import REPOSITORY, Processes
from tests.waiting import wait_until

KEY = "secret-key"


@pytest.fixture
def gateway(processes: Processes, free_port: int) -> str:
    """The URL of a gateway with one simulated engine and a key."""
    sim = processes.smg("sim", "--port", "0", "--model", "m").wait_for("ready")
    engine = sim.split(" ready at ")[1].split()[0]
    words = (
        "--host",
        "127.0.0.1",
        "--port",
        str(free_port),
        "--prometheus-port",
        "0",
        "--worker-urls",
        engine,
    )
    launched = processes.smg("launch", *words, env={"SMG_API_KEY": KEY})
    wait_until(lambda: "worker ready" in launched.output + launched.errors, "the worker is ready")
    return f"http://127.0.0.1:{free_port}"


def test_once(processes: Processes, gateway: str) -> None:
    top = processes.smg("top", "--once", "--url", gateway, env={KEY_VARIABLE: KEY})
    assert (top.wait(), top.errors) == (0, "")
    assert f"at {gateway}: serving, 1 of 1 workers ready" in top.output
    assert "ready" in top.output and "\x1b" not in top.output and KEY not in top.output


def test_a_wrong_key(processes: Processes, gateway: str) -> None:
    top = processes.smg("top", "--once", "--url", gateway, env={KEY_VARIABLE: "wrong"})
    assert top.wait() == 1
    assert top.errors.startswith("smg top: the gateway wants another key")


@contextmanager
def on_a_terminal(*words: str, key: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`smg` with a terminal of its own, and the other end of it."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, KEY_VARIABLE: key, "TERM": "xterm", "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [sys.executable, "-m", "smg", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, text: str) -> None:
    seen = b""
    while text.encode() not in seen:
        seen += os.read(terminal, 65536)


@pytest.fixture
def deaf_to_interrupts() -> Iterator[None]:
    """As in a script's background job: children inherit that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("pressed", [b"q", b"\x03"])
def test_it_shows_until_a_key_is_pressed(gateway: str, deaf_to_interrupts: None, pressed: bytes) -> None:
    with on_a_terminal("top", "--url", gateway, key=KEY) as (process, terminal):
        read_until(terminal, "workers ready")
        os.write(terminal, pressed)
        if pressed == b"\x03":
            process.send_signal(2)
        assert process.wait(20) == 0
