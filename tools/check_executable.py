"""Runs the executable where there is no Python, and measures it: `python tools/check_executable.py dist/smg`.

It is run with an empty environment in a root directory that holds nothing but itself, the C library and
zlib, which every Debian has (through `unshare`, from util-linux). `smg launch` has to answer on /health,
`smg serve` has to stream the answer of a simulated engine, both within two seconds; no file outside
the folder may be mapped but those libraries.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_SECS = 2.0
TRIES = 5
"""The machine may be busy with something else for once."""
GIVE_UP_SECS = 20.0
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
SYSTEM = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libz.so.1")
FROM_SYSTEM = re.compile(r"/lib[\w/-]*/(?:ld-linux-x86-64|lib(?:c|m|dl|pthread|rt|z))\.so\.\d")
QUESTION = {
    "model": "simulated-model",
    "stream": True,
    "messages": [{"role": "user", "content": "Hello"}],
}


def make_root(root: Path, program: Path) -> None:
    """A root directory with the program under /opt/smg and the libraries of the system."""
    shutil.copytree(program, root / "opt" / "smg", symlinks=True)
    libraries = root / "lib" / "x86_64-linux-gnu"
    for folder in (libraries, root / "lib64", root / "tmp", root / "proc", root / "dev"):
        folder.mkdir(parents=True)
    (root / "dev" / "null").touch()  # only root may make the real one
    shutil.copy2(LOADER, root / "lib64" / LOADER.name)
    home = LOADER.resolve().parent
    for name in SYSTEM:
        shutil.copy2(home / name, libraries / name)


@contextlib.contextmanager
def running(root: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of the program in its root directory; its output is a pipe."""
    bare = {"PATH": "/nonexistent", "HOME": "/tmp"}  # inside the new root
    unshare = shutil.which("unshare")
    assert unshare is not None, "unshare is missing (util-linux)"
    command = [unshare, "--user", "--map-root-user", f"--root={root}", "/opt/smg/smg", *words]
    process = subprocess.Popen(command, env=bare, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GIVE_UP_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answer_of(port: int, path: str, body: object = None) -> tuple[int, bytes, bytes]:
    """Status, first line and the whole of an answer; status 0 while nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP_SECS)
    try:
        head = {"Content-Type": "application/json"}
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, path, sent, head)
        answer = connection.getresponse()
        first = answer.readline()
        return answer.status, first, first + answer.read()
    except ConnectionError:
        return 0, b"", b""
    finally:
        connection.close()


def until_it_answers(port: int, path: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + GIVE_UP_SECS
    while answer_of(port, path)[0] != 200:
        if process.poll() is not None:
            raise SystemExit(f"it ended with {process.returncode}")
        if time.monotonic() > end:
            raise SystemExit(f"no 200 for {path} within {GIVE_UP_SECS:g} s")
        time.sleep(0.005)


def foreign_files(pid: int) -> list[str]:
    """Files mapped by a process that are neither of the folder nor of the system."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    mapped = {line.split(maxsplit=5)[5] for line in lines if line.count("/")}
    return sorted(name for name in mapped if "/opt/smg/" not in name and not FROM_SYSTEM.search(name))


def resident_mib(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def check_launch(root: Path) -> tuple[float, list[str]]:
    """Seconds from the start to the first 200 on /health, and what is wrong."""
    port, problems = free_port(), []
    started = time.monotonic()
    words = ("launch", "--host", "127.0.0.1", f"--port={port}", "--prometheus-port=0")
    with running(root, *words) as process:
        until_it_answers(port, "/health", process)
        took = time.monotonic() - started
        for path in ("/console", "/openapi.json", "/workers"):
            status, _, body = answer_of(port, path)
            if status != 200 or not body:
                problems.append(f"{path} answers {status} with {len(body)} bytes")
        problems += [f"it has {name} mapped" for name in foreign_files(process.pid)]
        print(f"smg launch: /health after {took:.2f} s, {resident_mib(process.pid):.0f} MiB resident")
    return took, problems


def check_serve(root: Path) -> tuple[float, list[str]]:
    """Seconds from the start to the first event of the curl line, and what is wrong."""
    port = free_port()
    started = time.monotonic()
    words = ("serve", "--host", "127.0.0.1", f"--port={port}", "--prometheus-port=0")
    with running(root, *words) as process:
        until_it_answers(port, "/readiness", process)
        status, first, body = answer_of(port, "/v1/chat/completions", QUESTION)
        took = time.monotonic() - started
        print(f"smg serve: the curl line's stream after {took:.2f} s")
    is_stream = first.startswith(b"data: {") and body.rstrip().endswith(b"data: [DONE]")
    return took, [] if status == 200 and is_stream else [f"the curl line's answer is {status} {body[:200]!r}"]


def main() -> int:
    program = Path(sys.argv[1] if len(sys.argv) > 1 else "dist/smg").resolve()
    with tempfile.TemporaryDirectory(prefix="smg-") as folder:
        root = Path(folder)
        make_root(root, program)
        os.chmod(root, 0o755)
        problems = []
        for check in (check_launch, check_serve):
            for _ in range(TRIES):
                took, found = check(root)
                problems += found
                if found or took < START_SECS:
                    break
            else:
                problems.append(f"{check.__name__}: {took:.2f} s are more than {START_SECS:g} s")
    print("\n".join(problems) or "it runs without a Python")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
