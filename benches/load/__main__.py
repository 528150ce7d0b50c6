"""Measures the gateway beside others, in one run on one machine.

    python -m benches.load --haproxy --original PATH/TO/smg --peer 'NAME=COMMAND'
    python -m benches.load --smoke

Each gateway has one CPU of its own; the load and the mock engines share another. What counts is the
gateway's own CPU time per request, or per event of a stream, read from the kernel's accounting: a
throughput on a shared machine says little. The rounds run all gateways in turn; the table gives
medians, and ratios are taken round by round. Needs wrk (Debian's package) for figures that count;
without it a slower client of ours makes the load.

In a peer's command {port}, {metrics}, {workers} and {worker0} are filled in.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benches.load import report
from benches.load.cases import CASES, EVENTS, Plan, Rows, measure
from benches.load.client import has_wrk
from benches.load.processes import ROOT, Gateway, NotStarted, command_of, engines, free_port

RESULTS = ROOT / "benches" / "results"


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benches.load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--ours", default=f"{sys.executable} -m smg launch", help="this gateway's launcher")
    add("--original", metavar="PATH", help="program of the Rust gateway, from an environment of its own")
    add("--haproxy", action="store_true", help="measure HAProxy too: the same bytes, no JSON read")
    add("--no-aiohttp", action="store_true", help="leave the plain aiohttp proxy out")
    add("--peer", action="append", default=[], metavar="NAME=COMMAND", help="another gateway, repeatable")
    add("--cases", default=",".join(CASES), help="which (default: %(default)s)")
    add("--seconds", type=float, default=4.0, help="length of one load (default: %(default)s)")
    add("--rounds", type=int, default=3, help="default: %(default)s")
    add("--name", default="load", help="name of the files in benches/results (default: %(default)s)")
    add("--output", type=Path, default=RESULTS, metavar="FOLDER", help="where they go")
    add("--smoke", action="store_true", help="a few short loads and no files, to see that it works")
    return parser


def commands(given: argparse.Namespace) -> dict[str, str]:
    """Gateway → what the user gave for it."""
    found = {report.OURS: given.ours}
    if given.original:
        found["original"] = f"{given.original} launch"
    if given.haproxy:
        found["haproxy"] = ""
    if not given.no_aiohttp:
        found["aiohttp"] = ""
    for peer in given.peer:
        name, _, command = peer.partition("=")
        found[name] = command
    return found


def run(given: argparse.Namespace, folder: Path) -> Rows:
    plan = Plan(given.seconds, given.rounds, 800, 300, has_wrk(), folder)
    if given.smoke:
        plan = Plan(0.3, 1, 50, 20, False, folder)
    rows: Rows = {}
    gateways: list[Gateway] = []
    with engines(2, EVENTS, 2.0, folder) as ports:
        try:
            for name, words in commands(given).items():
                port = free_port()
                gateway = Gateway(name, command_of(name, words, port, ports, folder), port, folder)
                gateways.append(gateway)
                rows[name] = {
                    "ready after, s": [gateway.start_seconds],
                    "RSS when ready, MiB": [gateway.resident_kib() / 1024],
                }
            for case in given.cases.split(","):
                measure(case, gateways, plan, rows)
        finally:
            for gateway in gateways:
                gateway.stop()
    return rows


def main() -> int:
    parser = options()
    given = parser.parse_args()
    if unknown := set(given.cases.split(",")) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if not given.smoke and not has_wrk():
        print("wrk is not installed; our own, slower client makes the load", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = run(given, Path(folder))
    except NotStarted as problem:
        print(problem, file=sys.stderr)
        return 1
    found = report.summary(rows)
    print(report.table(found))
    failed = any(sum(row.get("errors", [])) for row in rows.values())
    if not given.smoke:
        given.output.mkdir(parents=True, exist_ok=True)
        report.write_json(given.output / f"{given.name}.json", rows, sys.argv[1:])
        if not report.write_plot(given.output / f"{given.name}.png", found, list(rows)):
            print("no plot: matplotlib is not installed (pip install '.[bench]')", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
