"""`smg serve`: engines and a gateway in front of them, as children, in one command."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import shlex
import shutil
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from smg.cli.children import Child, Children, Failed, Stopped
from smg.cli.program import own_command
from smg.config.fields import Kind, fields_of
from smg.config.load import ConfigError
from smg.config.model import Config
from smg.config.options import add_launch_options, config_from

if TYPE_CHECKING:
    from smg.cli.parser import Parser

BACKENDS = ("sim", "vllm", "sglang")
SIM_START_SECS = 60.0
ENGINE_STOP_SECS = 30.0
GATEWAY_STOP_MARGIN_SECS = 10.0
POLL_SECS = 0.05
ANSWER_SECS = 5.0
MAX_ANSWER_BYTES = 1048576
_OWN = frozenset({"worker_urls", "backend"})


class Plan(msgspec.Struct, frozen=True):
    """What is started. The gateway's command lacks the workers' URLs."""

    backend: str
    engines: int
    engine_words: tuple[str, ...]
    gateway_command: tuple[str, ...]
    url: str
    needs_key: bool = False
    ready_secs: float = 60.0
    grace_secs: float = 180.0


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="start engines and a gateway in front of them",
        usage="smg serve [--engines N] [--backend {sim,vllm,sglang}] [launch options] [-- engine options]",
        description="Start engines on this machine and a gateway in front of them; end both with Ctrl-C. "
        "Options after -- go to each engine: to smg sim, vllm serve or sglang.launch_server. "
        "All other options are those of smg launch.",
    )
    own = parser.add_argument_group("Engines")
    own.add_argument("--engines", type=_count, metavar="N", help="how many; 2 simulated or 1 real by default")
    own.add_argument(
        "--backend", choices=BACKENDS, default="sim", help="what they are; sim needs no model (default: sim)"
    )
    add_launch_options(parser, exclude=_OWN)
    parser.set_defaults(run=run, engine_words=())
    parse = parser.parse_known_args

    def parse_known_args(  # argparse itself cannot keep words after -- for an optional tail
        args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(args or ())
        at = words.index("--") if "--" in words else len(words)
        found, unknown = parse(words[:at], namespace)
        found.engine_words = tuple(words[at + 1 :])
        return found, unknown

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 64:
        raise argparse.ArgumentTypeError("must be from 1 to 64")
    return value


_count.__name__ = "int"


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0 after a signal, 1 when a child failed, 2 for wrong options."""
    try:
        plan = plan_from(args)
    except ConfigError as refused:
        print(f"smg serve: {refused.render()}", file=sys.stderr)
        return 2
    except Failed as refused:
        print(f"smg serve: {refused}", file=sys.stderr)
        return 2
    return asyncio.run(serve(plan))


def plan_from(args: argparse.Namespace) -> Plan:
    """Check everything that can be checked before a process is started."""
    config = config_from(args, fixed={"worker_urls": [], "backend": "sglang"})
    if config.listen.port is None:
        raise Failed("it needs a TCP port beside --uds; give --port too, or use smg launch")
    if missing := _missing(args.backend, args.engine_words):
        raise Failed(missing)
    port = config.listen.port or free_port()
    is_sim = args.backend == "sim"
    hint = "sglang" if is_sim else args.backend  # said in any case: the environment may say otherwise
    words = [*launch_words(args), f"--port={port}", f"--backend={hint}"]
    return Plan(
        backend=args.backend,
        engines=args.engines or (2 if is_sim else 1),
        engine_words=args.engine_words,
        gateway_command=(*own_command(), "launch", *words),
        url=_url(config, port),
        needs_key=config.auth.api_key is not None or bool(config.auth.tenant_api_key),
        ready_secs=SIM_START_SECS if is_sim else config.workers.worker_startup_timeout_secs,
        grace_secs=config.listen.shutdown_grace_period_secs,
    )


def _missing(backend: str, engine_words: Sequence[str]) -> str:
    """Why engines of this kind cannot be started here, or nothing."""
    if backend == "sim":
        return ""
    if backend == "vllm":
        is_there, example = shutil.which("vllm") is not None, "MODEL"
    else:
        is_there, example = importlib.util.find_spec("sglang") is not None, "--model-path MODEL"
    if not is_there:
        return f"{backend} is not installed here; install it, or use the simulated engines (--backend sim)"
    if not engine_words:
        return f"{backend} needs to know its model: smg serve --backend {backend} -- {example}"
    return ""


def launch_words(args: argparse.Namespace) -> list[str]:
    """The gateway's options as they were given, without the port."""
    words = [f"--config={args.config}"] if args.config is not None else []
    for field in fields_of(Config):
        given = getattr(args, field.name, None)
        if given is None or field.name in _OWN or field.name == "port":
            continue
        flag = field.flags[0]
        if given is True:
            words.append(flag)
        elif given is False:
            words.append("--no-" + flag.removeprefix("--"))
        elif field.kind is Kind.REPEATED:
            words += [f"{flag}={one}" for one in given]
        elif isinstance(given, list):
            words += [flag, *given]
        else:
            words.append(f"{flag}={given}")
    return words


def _url(config: Config, port: int) -> str:
    """Where this machine reaches the gateway."""
    scheme = "https" if config.listen.tls_cert_path else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.listen.host, config.listen.host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def serve(plan: Plan) -> int:
    """Run until a signal or the end of a child; then end all, the gateway first."""
    children = Children()
    children.watch_signals()
    engines: list[Child] = []
    gateway: list[Child] = []
    try:
        urls = await _start_engines(plan, children, engines)
        command = [*plan.gateway_command, "--worker-urls", *urls]
        gateway.append(await children.start("the gateway", command))
        await children.until(
            _until_ready(plan), plan.ready_secs, f"the gateway was not ready after {plan.ready_secs:g} s"
        )
        model = await children.until(_model_of(urls[0]), None, "")
        print(banner(plan, urls, model), flush=True)
        await children.until_end()
    except Stopped:
        return 0
    except Failed as failed:
        print(f"smg serve: {failed}; all others are stopped", file=sys.stderr, flush=True)
        return 1
    finally:
        await children.stop(gateway, plan.grace_secs + GATEWAY_STOP_MARGIN_SECS)
        await children.stop(engines, ENGINE_STOP_SECS)
        await children.close()
    return 0


async def _start_engines(plan: Plan, children: Children, engines: list[Child]) -> list[str]:
    """Start the engines and return their URLs. Real ones may still be loading then."""
    urls = []
    for number in range(1, plan.engines + 1):
        name = f"engine {number}"
        if plan.backend == "sim":
            command = [*own_command(), "sim", *plan.engine_words, "--port", "0"]
            engines.append(await children.start(name, command, reads_output=True))
            continue
        port = str(free_port())
        program = (
            ["vllm", "serve"] if plan.backend == "vllm" else [sys.executable, "-m", "sglang.launch_server"]
        )
        command = [*program, *plan.engine_words, "--host", "127.0.0.1", "--port", port]
        engines.append(await children.start(name, command))
        urls.append(f"http://127.0.0.1:{port}")
    if plan.backend == "sim":
        for child in engines:
            late = f"{child.name} was not ready after {SIM_START_SECS:g} s"
            line = await children.until(child.first_line(), SIM_START_SECS, late)
            if not line:  # its end is noticed in a moment and tells more
                await children.until(asyncio.sleep(ANSWER_SECS), None, "")
                raise Failed(f"{child.name} did not say that it is ready")
            urls.append(line.rpartition(" ")[2])
            children.pass_on_output(child)
    return urls


async def _until_ready(plan: Plan) -> None:
    """Wait until the gateway can use every engine."""
    while True:
        status, body = await _get(plan.url, "/readiness")
        if status == 200 and body.get("healthy_workers", plan.engines) >= plan.engines:
            return
        await asyncio.sleep(POLL_SECS)


async def _model_of(url: str) -> str:
    """The first model that an engine lists, for the example."""
    _, body = await _get(url, "/v1/models")
    models = body.get("data")
    return str(models[0]["id"]) if models else "MODEL"


async def _get(url: str, path: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of an answer from this machine; 0 and nothing when there is none."""
    try:
        return await asyncio.wait_for(_ask(url, path), ANSWER_SECS)
    except (OSError, ValueError, IndexError, TimeoutError):
        return 0, {}


async def _ask(url: str, path: str) -> tuple[int, dict[str, Any]]:
    scheme, _, place = url.partition("://")
    host, _, port = place.rpartition(":")
    encrypted = None
    if scheme == "https":  # our own child on our own machine: its certificate may name another host
        encrypted = ssl.create_default_context()
        encrypted.check_hostname = False
        encrypted.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=encrypted)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while len(answer) < MAX_ANSWER_BYTES and (data := await reader.read(MAX_ANSWER_BYTES)):
            answer += data
        head, _, body = answer.partition(b"\r\n\r\n")
        found = json.loads(body) if body.startswith(b"{") else {}
        return int(head.split(b" ", 2)[1]), found
    finally:
        writer.transport.abort()


def banner(plan: Plan, urls: Sequence[str], model: str) -> str:
    """What the user sees when everything runs."""
    kind = "simulated engine" if plan.backend == "sim" else f"{plan.backend} engine"
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "Hello!"}]}
    words = [
        "curl",
        "-N",
        *(["-k"] if plan.url.startswith("https") else []),
        f"{plan.url}/v1/chat/completions",
    ]
    words += ["-H", "Content-Type: application/json"]
    if plan.needs_key:
        words += ["-H", "Authorization: Bearer YOUR_KEY"]
    lines = [f"smg is ready at {plan.url}", "", "Workers:"]
    lines += [f"  {url}  {kind}" for url in urls]
    lines += ["", "Try it:", f"  {shlex.join([*words, '-d', json.dumps(body)])}"]
    lines += ["", f"Watch it: {plan.url}/console", "", "Stop it with Ctrl-C."]
    return "\n".join(lines)
