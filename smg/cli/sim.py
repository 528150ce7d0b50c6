"""`smg sim`: runs simulated engines until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import signal
import sys
from typing import TYPE_CHECKING

from smg.sim.faults import Fault, parse
from smg.sim.options import KINDS, Options

if TYPE_CHECKING:
    from smg.cli.parser import Parser

DESCRIPTION = (
    "Start a simulated engine: it answers like an inference server, with made-up text, without a model. "
    "GET /sim/state tells what it saw; POST /sim/faults breaks it on purpose."
)


def _fault(text: str) -> Fault:
    try:
        return parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _at_least(lowest: int) -> type[int]:
    """A converter to integers that are not below `lowest`."""

    def convert(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise argparse.ArgumentTypeError(f"must be at least {lowest}")
        return value

    convert.__name__ = "int"
    return convert  # type: ignore[return-value]


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{value} is no port number")
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e12:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = subparsers.add_parser("sim", help="start a simulated engine", description=DESCRIPTION)
    default = Options()
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add(
        "--port",
        type=_port,
        nargs="+",
        default=[8001],
        help="one engine per port, each with a cache of its own; 0 takes a free port (default: 8001)",
    )
    add("--kind", choices=KINDS, default=default.kind, help="engine to resemble (default: %(default)s)")
    add("--model", action="append", metavar="NAME", help="served name, may be repeated")
    add("--api-key", metavar="KEY", help="key that requests must bring")
    add("--seed", type=int, default=0, help="changes all texts and the chance of faults")
    add(
        "--fault",
        type=_fault,
        action="append",
        default=[],
        metavar="KIND[,NAME=VALUE...]",
        help="a fault from the start on, for example status,status=503,requests=3 or "
        "cut,after_events=5,how=reset,probability=0.1; kinds: delay, stall, reset, close, status, cut",
    )
    _add_timing(parser, default)
    _add_sizes(parser, default)
    parser.set_defaults(run=run)


def _add_timing(parser: Parser, default: Options) -> None:
    add = parser.add_argument
    add("--prefill-tps", type=_rate, default=0.0, help="prompt tokens per second, 0: no time (default)")
    add("--decode-tps", type=_rate, default=0.0, help="tokens per second and stream, 0: no time (default)")
    add("--max-running", type=_at_least(1), default=default.max_running, help="requests at the same time")
    add("--max-waiting", type=_at_least(1), default=default.max_waiting, help="queue length, then 503")
    add("--keep-alive-secs", type=_rate, default=default.idle_secs, help="idle connections end, 0: never")


def _add_sizes(parser: Parser, default: Options) -> None:
    add = parser.add_argument
    add(
        "--output-tokens",
        type=_at_least(1),
        default=default.output_tokens,
        help="length of a text that nothing ends earlier (default: %(default)s)",
    )
    add("--stream-interval", type=_at_least(1), default=1, help="tokens per event (default: 1)")
    add(
        "--burst-events",
        type=_at_least(1),
        default=1,
        help="events written at once when decoding takes no time (default: 1)",
    )
    add("--context-tokens", type=_at_least(2), default=default.context_tokens, help="longest prompt and text")
    add(
        "--cache-tokens",
        type=_at_least(0),
        default=default.cache_tokens,
        help="capacity of the prefix cache, 0: no cache (default: %(default)s)",
    )
    add("--max-body-bytes", type=_at_least(1), default=default.max_body_bytes, help="larger bodies get 413")
    add("--embedding-dims", type=_at_least(1), default=default.embedding_dims, help="length of embeddings")


def options_from(args: argparse.Namespace) -> Options:
    return Options(
        kind=args.kind,
        models=tuple(args.model or Options().models),
        api_key=args.api_key,
        seed=args.seed,
        output_tokens=args.output_tokens,
        stream_interval=args.stream_interval,
        burst_events=args.burst_events,
        context_tokens=args.context_tokens,
        cache_tokens=args.cache_tokens,
        prefill_tps=args.prefill_tps,
        decode_tps=args.decode_tps,
        max_running=args.max_running,
        max_waiting=args.max_waiting,
        max_body_bytes=args.max_body_bytes,
        idle_secs=args.keep_alive_secs,
        embedding_dims=args.embedding_dims,
        faults=tuple(args.fault),
    )


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0 after a signal, 1 when a port cannot be had."""
    import uvloop  # late: `smg sim --help` needs no loop

    return uvloop.run(_serve(args.host, args.port, options_from(args)))


async def _serve(host: str, ports: list[int], options: Options) -> int:
    from smg.sim.engine import Engine

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    engines: list[Engine] = []
    try:
        for port in ports:
            engine = Engine(options)
            try:
                await engine.start(host, port)
            except OSError as problem:
                print(f"smg sim: {_refusal(host, port, problem)}", file=sys.stderr)
                return 1
            engines.append(engine)
        for engine in engines:
            print(f"simulated {options.kind} engine ready at {engine.url}", flush=True)
        await stopped.wait()
        return 0
    finally:
        for engine in engines:
            await engine.close()


def _refusal(host: str, port: int, problem: OSError) -> str:
    number = problem.errno
    if number == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop what listens there or choose another --port"
    reason = os.strerror(number) if isinstance(number, int) and number > 0 else str(problem)
    return f"cannot listen on {host}, port {port}: {reason}"
