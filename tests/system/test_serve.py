"""`smg serve`: simulated engines and a gateway, started and ended by one command."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import signal
from typing import Any

import pytest

from tests.system.processes import Processes, Running, children_of, is_alive
from tests.waiting import wait_until


def start(processes: Processes, port: int, *words: str) -> tuple[Running, list[int]]:
    """A serve that has printed its banner, and the processes it started. Its metrics are on any free port:
    other tests run beside."""
    listen = ("--host", "127.0.0.1", "--port", str(port), "--prometheus-port", "0")
    serve = processes.smg("serve", *listen, *words)
    serve.wait_for("Stop it with Ctrl-C")
    return serve, children_of(serve.pid)


def example(banner: str) -> tuple[str, int, str, dict[str, str], dict[str, Any]]:
    """Host, port, path, headers and body of the curl line in the banner."""
    line = next(line for line in banner.splitlines() if line.strip().startswith("curl"))
    words = shlex.split(line)
    found = re.fullmatch(r"http://([^:/]+):(\d+)(/.*)", words[words.index("-N") + 1])
    assert found is not None
    headers = dict(word.split(": ", 1) for at, word in enumerate(words) if at and words[at - 1] == "-H")
    return found[1], int(found[2]), found[3], headers, json.loads(words[words.index("-d") + 1])


def none_is_left(pids: list[int]) -> None:
    wait_until(lambda: not any(map(is_alive, pids)), f"end of {pids}")


def test_the_printed_example_streams_and_everything_ends(processes: Processes, free_port: int) -> None:
    serve, children = start(processes, free_port)
    assert len(children) == 3
    assert serve.output.count("simulated engine") == 2
    host, port, path, headers, body = example(serve.output)
    assert port == free_port
    connection = http.client.HTTPConnection(host, port, timeout=20)
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    stream = answer.read().decode()
    connection.close()
    assert answer.status == 200
    assert answer.getheader("Content-Type", "").startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    assert "".join(deltas).startswith("This is a simulated engine")
    assert serve.stop() == 0
    none_is_left(children)


def test_options_reach_gateway_and_engines(processes: Processes, free_port: int) -> None:
    words = ["--engines", "1", "--api-key", "k1", "--", "--model", "tiny", "--kind", "vllm"]
    serve, children = start(processes, free_port, *words)
    assert len(children) == 2
    _, _, _, headers, body = example(serve.output)
    assert headers["Authorization"] == "Bearer YOUR_KEY"
    assert body["model"] == "tiny"
    assert serve.stop(signal.SIGINT) == 0
    none_is_left(children)


def test_ends_when_an_engine_dies(processes: Processes, free_port: int) -> None:
    serve, children = start(processes, free_port)
    os.kill(children[0], signal.SIGKILL)
    assert serve.wait() == 1
    assert "engine 1 was killed by SIGKILL" in serve.errors
    none_is_left(children)


def test_children_end_when_the_parent_is_killed(processes: Processes, free_port: int) -> None:
    serve, children = start(processes, free_port)
    assert serve.stop(signal.SIGKILL) == -signal.SIGKILL
    none_is_left(children)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--polcy", "random"], "unknown option --polcy, did you mean --policy?"),
        (["--retry-max-retries", "many"], "--retry-max-retries"),
        (["--engines", "0"], "must be from 1 to 64"),
        (["--uds", "smg.sock"], "it needs a TCP port beside --uds"),
    ],
)
def test_refuses_wrong_options_before_it_starts_anything(
    processes: Processes, words: list[str], sentence: str
) -> None:
    serve = processes.smg("serve", *words)
    assert serve.wait() == 2
    assert sentence in serve.errors
    assert "Traceback" not in serve.errors
