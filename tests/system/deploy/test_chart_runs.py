"""A pod of the sidecar mode with its containers as processes: probes, and the order in which it ends."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.system.deploy.chart import container, render, write_files
from tests.system.processes import Processes
from tests.waiting import wait_until


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def status_of(url: str) -> int:
    try:
        with urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as refused:
        refused.close()
        return refused.code
    except OSError:
        return 0


def test_a_pod_becomes_ready_and_its_engine_ends_last(processes: Processes, tmp_path: Path) -> None:
    engine_port, http, health, metrics = free_ports(4)
    objects = render(
        tmp_path,
        {
            "mode": "sidecar",
            "engine": {"image": "engine", "port": engine_port, "python": sys.executable},
            "ports": {"http": http, "health": health, "metrics": metrics},
            "config": {"host": "127.0.0.1", "worker_startup_check_interval": 1},
            "drain": {"gracePeriodSecs": 1},
        },
    )
    words = [word.replace("/etc/smg", str(tmp_path)) for word in write_files(objects, tmp_path)]
    gateway = processes.smg(*words)
    probes = container(objects)
    alive = f"http://127.0.0.1:{health}{probes['livenessProbe']['httpGet']['path']}"
    ready = f"http://127.0.0.1:{health}{probes['readinessProbe']['httpGet']['path']}"
    wait_until(lambda: status_of(alive) == 200, "the gateway is alive")
    assert status_of(ready) == 503
    processes.smg("sim", "--port", str(engine_port))
    wait_until(lambda: status_of(ready) == 200, "the pod is ready")
    assert status_of(f"http://127.0.0.1:{http}/v1/models") == 200
    assert status_of(f"http://127.0.0.1:{metrics}/metrics") == 200

    hook = processes.start(container(objects, "engine")["lifecycle"]["preStop"]["exec"]["command"])
    gateway.process.send_signal(signal.SIGTERM)
    wait_until(lambda: status_of(ready) == 503 or gateway.process.poll() is not None, "it drains")
    assert gateway.wait() == 0
    assert hook.wait() == 0
    assert not hook.errors
