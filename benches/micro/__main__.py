"""Runs the micro benchmarks: all of them, or those named.

python -m benches.micro                       # all, a minute or two each
python -m benches.micro head chunks --fast    # fewer runs
python -m benches.micro --smoke               # one iteration each, to see that they work
python -m benches.micro --json FOLDER         # keep pyperf's results
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

NAMES = (
    "head",
    "chunks",
    "jsonspan",
    "held",
    "deadlines",
    "exchange",
    "radix",
    "textindex",
    "recency",
    "prefix",
    "ring",
    "toolcalls",
)
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.micro",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--smoke", action="store_true", help="one iteration each")
    parser.add_argument("--fast", action="store_true", help="fewer runs")
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="where pyperf's results go")
    given = parser.parse_args()
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    for name in given.names or NAMES:
        command = [sys.executable, "-m", f"benches.micro.{name}"]
        if given.smoke:
            command += ["--debug-single-value", "--quiet"]
        elif given.fast:
            command += ["--fast"]
        if given.json:
            given.json.mkdir(parents=True, exist_ok=True)
            command += ["--output", str(given.json / f"{name}.json")]
        print(f"-- {name}", flush=True)
        if status := subprocess.run(command, cwd=ROOT, check=False).returncode:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
