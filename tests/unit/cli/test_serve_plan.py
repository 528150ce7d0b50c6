"""What `smg serve` makes of its options, and its run with a stand-in for the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from smg.cli import serve
from smg.cli.parser import Parser
from smg.config.load import ConfigError
from tests.waiting import START_S, until

GATEWAY = """
import http.server, json, pathlib, signal, sys
place, port, *workers = sys.argv[1:]
pathlib.Path(place).write_text(json.dumps(workers))

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"status": "ready", "healthy_workers": len(workers) - 1}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.HTTPServer(("127.0.0.1", int(port)), Ready).serve_forever()
"""


def plan(*words: str) -> serve.Plan:
    parser = Parser(prog="smg")
    serve.add_parser(parser.add_subparsers(dest="command"))
    args, unknown = parser.parse_known_args(["serve", *words])
    assert unknown == []
    return serve.plan_from(args)


def test_defaults() -> None:
    made = plan()
    assert (made.backend, made.engines, made.engine_words) == ("sim", 2, ())
    assert made.url == "http://127.0.0.1:30000"
    assert made.gateway_command[1:] == ("-m", "smg", "launch", "--port=30000", "--backend=sglang")


def test_options_are_passed_on_as_given() -> None:
    made = plan(
        *("--engines", "3", "--disable-retries", "--request-id-headers", "x-a", "x-b"),
        *("--model-alias", "a=b", "--model-alias=c=d", "--port", "31000", "--host", "::"),
        *("--", "--decode-tps", "5", "--port"),
    )
    assert made.engines == 3
    assert made.engine_words == ("--decode-tps", "5", "--port")
    assert made.url == "http://[::1]:31000"
    words = shlex.join(made.gateway_command)
    for expected in (
        "--disable-retries",
        "--request-id-headers x-a x-b",
        "--model-alias=a=b --model-alias=c=d",
        "--host=::",
        "--port=31000",
    ):
        assert expected in words


def test_port_zero_becomes_a_port() -> None:
    assert int(plan("--port", "0").url.rpartition(":")[2]) > 0


def test_wrong_options_are_refused_before_a_start() -> None:
    with pytest.raises(ConfigError):
        plan("--retry-max-retries", "many")
    with pytest.raises(serve.Failed, match="TCP port"):
        plan("--uds", "socket")


def test_real_engines_need_to_be_there_and_told_their_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(serve.Failed, match="vllm is not installed here"):
        plan("--backend", "vllm")
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(serve.Failed, match="smg serve --backend vllm -- MODEL"):
        plan("--backend", "vllm")
    made = plan("--backend", "vllm", "--", "tiny")
    assert (made.engines, made.engine_words) == (1, ("tiny",))
    assert made.gateway_command[-1] == "--backend=vllm"


def test_the_banner_can_be_pasted() -> None:
    made = plan("--port", "31000", "--api-key", "secret")
    text = serve.banner(made, ["http://127.0.0.1:1"], "it's")
    line = next(line for line in text.splitlines() if "curl" in line)
    words = shlex.split(line)
    assert words[:3] == ["curl", "-N", "http://127.0.0.1:31000/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == "it's"
    assert "secret" not in text


@pytest.fixture
def stand_in(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> serve.Plan:
    """Two engines and a gateway that is ready at once and notes its workers."""
    monkeypatch.setenv("PYTHONPATH", str(Path(serve.__file__).parents[2]))
    command = (sys.executable, "-c", GATEWAY, str(tmp_path / "workers"), str(free_port))
    return serve.Plan("sim", 2, ("--model", "tiny"), command, f"http://127.0.0.1:{free_port}")


async def test_starts_and_ends_all(
    stand_in: serve.Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = asyncio.ensure_future(serve.serve(stand_in))
    said: list[str] = []

    def is_complete() -> bool:
        said.append(capsys.readouterr().out)
        return running.done() or "Ctrl-C" in "".join(said)

    await until(is_complete, "all have started", START_S)
    assert not running.done()
    text = "".join(said)
    flag, *urls = json.loads((tmp_path / "workers").read_text())
    assert flag == "--worker-urls"
    assert len(urls) == 2
    assert all(url in text for url in urls)
    assert '"model": "tiny"' in text
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 0
    for url in urls:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))


async def test_a_gateway_that_does_not_start_ends_all(
    stand_in: serve.Plan, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = msgspec.structs.replace(stand_in, gateway_command=(sys.executable, "-c", "raise SystemExit(2)"))
    assert await serve.serve(broken) == 1
    assert "smg serve: the gateway ended with exit status 2; all others are stopped" in capfd.readouterr().err


async def test_engines_that_do_not_start(stand_in: serve.Plan, capfd: pytest.CaptureFixture[str]) -> None:
    broken = msgspec.structs.replace(stand_in, engine_words=("--bogus",))
    assert await serve.serve(broken) == 1
    errors = capfd.readouterr().err
    assert "unknown option --bogus" in errors
    assert "ended with exit status 2" in errors
