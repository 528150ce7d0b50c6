"""Builds and starts the image without Docker, as root: `python tools/replay_image.py`.

Each stage gets an overlay of this machine's root directory in place of the base image, in which COPY and
RUN are carried out as they are written. Then the entry point runs as the image's user on a read-only
file system: it has to answer on /health and to end with 0 after SIGTERM. What this cannot show is what
the base image lacks; it should be of this machine's kind, with its Python and Debian.
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dockerfile import Ignored, Stage, copy_of, expand, pairs_of, read, words_of

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
READY_SECS = 30.0
PYTHON = Path(sys.base_prefix)
SYSTEM_PATH = f"{PYTHON}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES = ("dev/null", "dev/zero", "dev/random", "dev/urandom")
# Where the packages come from is told by the machine, not by the image.
PASSED_ON = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_")


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


class Built:
    """A stage while it is built: its root directory and what its instructions have set so far."""

    def __init__(self, folder: Path, stage: Stage) -> None:
        self.root = folder / stage.name / "root"
        self.environ = {"PATH": SYSTEM_PATH, "HOME": "/root"}
        self.workdir = "/"
        self._arguments: dict[str, str] = {}
        places = [folder / stage.name / name for name in ("root", "upper", "work")]
        for place in places:
            place.mkdir(parents=True)
        upper, work = places[1:]
        mount("-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", str(self.root))
        mount("-t", "proc", "proc", str(self.root / "proc"))
        for device in DEVICES:
            (self.root / device).touch()
            mount("--bind", f"/{device}", str(self.root / device))
        for parent in (PYTHON, *PYTHON.parents):  # a Python in somebody's home
            inside = self.root / parent.relative_to("/")
            inside.chmod(inside.stat().st_mode | 0o111)

    def path(self, inside: str) -> Path:
        return self.root / os.path.join(self.workdir, inside).lstrip("/")

    def shell(self, text: str) -> None:
        passed = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        self.path(self.workdir).mkdir(parents=True, exist_ok=True)
        words = ["chroot", str(self.root), "/bin/sh", "-c", f"cd {self.workdir} && {text}"]
        subprocess.run(words, env={**passed, **self._arguments, **self.environ}, check=True)

    def carry_out(self, instruction: str, text: str, built: dict[str, Built]) -> None:
        if instruction == "ARG":
            self._arguments |= pairs_of(instruction, text)
        elif instruction == "ENV":
            self.environ |= {k: expand(v, self.environ) for k, v in pairs_of(instruction, text).items()}
        elif instruction == "WORKDIR":
            self.workdir = text
        elif instruction == "COPY":
            self._copy(text, built)
        elif instruction == "RUN":
            self.shell(text)

    def _copy(self, text: str, built: dict[str, Built]) -> None:
        copy = copy_of(text)
        target = self.path(copy.target)
        if copy.source_stage is not None:
            shutil.copytree(built[copy.source_stage].path(copy.sources[0]), target, symlinks=True)
            return
        ignored = Ignored(Path(f"{DOCKERFILE}.dockerignore"))
        for source in copy.sources:
            found = ROOT / source
            for path in [found] if found.is_file() else sorted(found.rglob("*")):
                if path.is_file() and str(path.relative_to(ROOT)) not in ignored:
                    put = target / (path.name if found.is_file() else path.relative_to(found))
                    put.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, put)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def start(built: Built, stage: Stage) -> None:
    """Run the entry point with the default command; raises when it does not do as it should."""
    mount("-o", "remount,ro", str(built.root))
    mount("-t", "tmpfs", "tmpfs", str(built.root / "tmp"))
    port = free_port()
    aside = {"SMG_PORT": str(port), "SMG_PROMETHEUS_PORT": "0", "SMG_SHUTDOWN_GRACE_PERIOD_SECS": "1"}
    words = ["chroot", f"--userspec={stage.last('USER')}", str(built.root)]
    words += [*words_of(stage.last("ENTRYPOINT")), *words_of(stage.last("CMD"))]
    process = subprocess.Popen(words, env={**built.environ, "HOME": "/tmp", **aside})
    try:
        end = time.monotonic() + READY_SECS
        while not is_healthy(port):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"it is not healthy; exit status: {process.poll()}")
            time.sleep(0.02)
        uids = Path(f"/proc/{process.pid}/status").read_text().partition("Uid:\t")[2].split()[:4]
        process.send_signal(getattr(signal, stage.last("STOPSIGNAL")))
        status = process.wait(READY_SECS)
    finally:
        process.kill()
        process.wait()
    if status or set(uids) != {stage.last("USER").partition(":")[0]}:
        raise SystemExit(f"it ended with {status} and ran as {uids}")


def replay(folder: Path) -> None:
    mount("-t", "tmpfs", "tmpfs", str(folder))
    built: dict[str, Built] = {}
    stages = read(DOCKERFILE)
    for stage in stages:
        built[stage.name] = Built(folder, stage)
        for instruction, text in stage.steps:
            built[stage.name].carry_out(instruction, text, built)
    last = stages[-1]
    size = sum(p.stat().st_size for p in built[last.name].path("/opt/smg").rglob("*") if p.is_file())
    start(built[last.name], last)
    print(f"the image's steps work; /opt/smg has {size / 1e6:.0f} MB")


def main() -> int:
    if os.geteuid():
        print("this mounts and changes its root directory, so it has to be run as root", file=sys.stderr)
        return 2
    if sys.argv[1:2] == ["--inside"]:
        replay(Path(sys.argv[2]))
        return 0
    folder = tempfile.mkdtemp(prefix="smg-")
    try:
        # All that is mounted goes with the namespace, and the folder is empty again.
        words = ["unshare", "--mount", sys.executable, __file__, "--inside", folder]
        return subprocess.run(words, check=False).returncode
    finally:
        os.rmdir(folder)


if __name__ == "__main__":
    sys.exit(main())
