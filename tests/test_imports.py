"""What importing costs: every module alone, and what the commands leave unimported."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".pyx"}
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "smg").rglob("*")
    if path.suffix in SUFFIXES and path.stem != "__main__"
)
EXTRAS = {"grpc", "google", "smg_grpc_proto", "tokenizers", "huggingface_hub", "numpy", "PIL"}
EXTRAS |= {"opentelemetry", "jwt", "kubernetes_asyncio", "redis", "asyncpg", "mcp", "pydantic", "zmq", "h2"}
EXTRAS |= {"aiortc", "aioice", "av"}
EXTRAS |= {"matplotlib", "pyperf"}
# `-X importtime` writes "import time: self | cumulative | name" for every module.
IMPORTED = re.compile(r"^import time:[\s\d]+\|[\s\d]+\|\s*([\w.]+)\s*$", re.M)
START_SECS = 30.0


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)


def imported(errors: str) -> set[str]:
    """Top-level names of all that was imported."""
    return {name.partition(".")[0] for name in IMPORTED.findall(errors)}


@pytest.mark.parametrize("module", MODULES)
def test_every_module_can_be_imported_alone(module: str) -> None:
    ended = run("-W", "error", "-c", f"import {module}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_package_imports_nothing_beyond_itself() -> None:
    code = "import sys; before = set(sys.modules); import smg; print(*(set(sys.modules) - before))"
    assert run("-c", code).stdout.split() == ["smg"]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["launch", "--help"],
        ["serve", "--help"],
        ["sim", "--help"],
        ["top", "--help"],
    ],
    ids=" ".join,
)
def test_help_starts_no_server_code(words: list[str]) -> None:
    ended = run("-X", "importtime", "-m", "smg", *words)
    assert ended.returncode == 0
    names = imported(ended.stderr)
    assert "smg" in names
    assert not names & (EXTRAS | {"aiohttp", "uvloop", "prometheus_client"})


def test_a_gateway_without_traffic_imports_no_extras(tmp_path: Path) -> None:
    """They come when they are used: metrics when scraped, the rest with its feature."""
    path, errors = tmp_path / "smg.sock", tmp_path / "stderr"
    options = ["--uds", str(path), "--prometheus-port", "0", "--prometheus-host", "127.0.0.1"]
    command = [sys.executable, "-X", "importtime", "-m", "smg", "launch", *options]
    with errors.open("wb") as to:
        gateway = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=to)
    try:
        wait_until_it_accepts(path, gateway)
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(20) == 0
    finally:
        if gateway.poll() is None:
            gateway.kill()
            gateway.wait()
    names = imported(errors.read_text(encoding="utf-8"))
    assert {"aiohttp", "uvloop"} <= names
    assert not names & (EXTRAS | {"prometheus_client"})


def wait_until_it_accepts(path: Path, gateway: subprocess.Popen[bytes]) -> None:
    def accepts() -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    wait_until(lambda: accepts() or gateway.poll() is not None, "the gateway accepts")
    assert gateway.poll() is None, "the gateway ended"
