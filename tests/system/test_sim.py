"""`smg sim` as a real process."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from typing import Any

import pytest

from tests.system.processes import Processes
from tests.waiting import wait_until

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def ask(port: int, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text
    finally:
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_starts_answers_and_ends_with_zero(
    processes: Processes, free_port: int, number: signal.Signals
) -> None:
    sim = processes.smg("sim", "--port", str(free_port), "--kind", "vllm", "--model", "m")
    output = sim.wait_for("ready")
    assert output == f"simulated vllm engine ready at http://127.0.0.1:{free_port}\n"
    status, answer = ask(free_port, "POST", "/v1/chat/completions", CHAT)
    assert (status, answer["model"]) == (200, "m")
    assert answer["choices"][0]["message"]["content"].startswith("This is a simulated engine")
    assert sim.stop(number) == 0
    assert sim.errors == ""


def test_says_that_the_port_is_taken(processes: Processes) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sim = processes.smg("sim", "--port", str(port))
        assert sim.wait() == 1
    assert sim.errors.startswith(f"smg sim: port {port} on 127.0.0.1 is in use")
    assert "Traceback" not in sim.errors


def test_one_process_runs_several_engines(processes: Processes) -> None:
    sim = processes.smg("sim", "--port", "0", "0", "--kind", "sglang")
    wait_until(lambda: sim.output.count("ready") == 2, "two ready lines")
    ports = [int(line.rpartition(":")[2]) for line in sim.output.splitlines()]
    ask(ports[0], "POST", "/v1/chat/completions", CHAT)
    seen = [ask(port, "GET", "/sim/state")[1]["requests_seen"] for port in ports]
    assert seen == [1, 0]


def test_faults_from_the_start_and_at_run_time(processes: Processes, free_port: int) -> None:
    sim = processes.smg("sim", "--port", str(free_port), "--fault", "status,status=429,requests=1")
    sim.wait_for("ready")
    statuses = [ask(free_port, "POST", "/v1/chat/completions", CHAT)[0] for _ in range(2)]
    assert statuses == [429, 200]
    ask(free_port, "POST", "/sim/faults", {"kind": "reset"})
    with pytest.raises(ConnectionResetError):
        ask(free_port, "POST", "/v1/chat/completions", CHAT)
    assert ask(free_port, "DELETE", "/sim/faults") == (200, [])
    assert ask(free_port, "POST", "/v1/chat/completions", CHAT)[0] == 200


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fault", "explode"], "Invalid enum value 'explode'"),
        (["--fault", "delay,seconds"], "expected name=value, got 'seconds'"),
        (["--max-running", "0"], "must be at least 1"),
        (["--port", "99999"], "99999 is no port number"),
    ],
)
def test_refuses_wrong_options(processes: Processes, words: list[str], sentence: str) -> None:
    sim = processes.smg("sim", *words)
    assert sim.wait() in (1, 2)
    assert sentence in sim.errors
    assert "Traceback" not in sim.errors
