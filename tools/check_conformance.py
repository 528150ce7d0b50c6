"""Runs the conformance cases of what is built, and holds the list of what is not to its word.

    python tools/check_conformance.py [FILE ...] [--suite FOLDER] [--gateway 'smg launch'] [--jobs N]

The files `http-*` and `extra-http` are run on both data paths: as they are, and as `NAME+aiohttp` with
`--data-path aiohttp` added to the arguments of every gateway. `--all-paths` does so with every file.

`tests/conformance/built.txt` names case files; `tests/conformance/pending.txt` names cases in them that
belong to features not built yet, as FILE:CASE. Fails when another case fails, when a pending one passes
(take it off the list), and when a listed case or file does not exist.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

AIOHTTP = "+aiohttp"
LISTS = Path(__file__).resolve().parent.parent / "tests" / "conformance"


def listed(name: str) -> list[str]:
    """The lines of a list, without comments."""
    lines = (LISTS / name).read_text(encoding="utf-8").splitlines()
    return [text for line in lines if (text := line.partition("#")[0].strip())]


def has_both_paths(name: str) -> bool:
    return name.startswith("http-") or name == "extra-http"


def cases_of(suite: Path, name: str, folder: Path) -> Path:
    """The case file of a name; that of NAME+aiohttp is written to the folder."""
    path = suite / "cases" / f"{name.removesuffix(AIOHTTP)}.json"
    if not name.endswith(AIOHTTP):
        return path
    cases = json.loads(path.read_text(encoding="utf-8"))
    for case in cases:
        case["gateway_args"] = [*(case.get("gateway_args") or []), "--data-path", "aiohttp"]
    made = folder / f"{name}.json"
    made.write_text(json.dumps(cases), encoding="utf-8")
    return made


def run(
    suite: Path, files: list[str], gateway: str, jobs: int, only: Iterable[str] = ()
) -> dict[str, str | None]:
    """FILE:CASE → the first difference, None when the case passed. `only`: names of cases."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, str(suite / "run.py"), "--gateway", gateway, "--jobs", str(jobs)]
        for name in files:
            command += ["--cases", str(cases_of(suite, name, Path(folder)))]
        for name in only:
            command += ["--only", f"^{re.escape(name)}$"]
        command += ["--report", str(report)]
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if not report.exists():
            raise RuntimeError(f"the runner ended with {ended.returncode} and no report")
        entries = json.loads(report.read_text(encoding="utf-8"))
    return {f"{one['file'].removesuffix('.json')}:{one['name']}": one["difference"] for one in entries}


def problems_of(results: dict[str, str | None], pending: list[str]) -> list[str]:
    problems = [
        f"FAIL {name}: {difference}"
        for name, difference in results.items()
        if difference is not None and name not in pending
    ]
    problems += [
        f"PASSES BUT IS PENDING {name}: take it off tests/conformance/pending.txt"
        for name in pending
        if results.get(name, "") is None
    ]
    return problems + [f"NO SUCH CASE {name} in pending.txt" for name in pending if name not in results]


def main() -> int:
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("files", nargs="*", metavar="FILE", help="of built.txt; all by default")
    parser.add_argument("--suite", type=Path, default=LISTS, help="folder with run.py and cases/")
    parser.add_argument("--gateway", default=f"{sys.executable} -m smg launch")
    parser.add_argument("--jobs", type=int, default=3, help="gateways at the same time")
    parser.add_argument("--all-paths", action="store_true", help="every file on both data paths")
    given = parser.parse_args()
    built = listed("built.txt")
    files = list(given.files or built)
    if not set(files) <= set(built):
        parser.error(f"built.txt lists {', '.join(built)}")
    missing = [name for name in files if not (given.suite / "cases" / f"{name}.json").is_file()]
    if missing:
        print(f"no case files {', '.join(missing)}", file=sys.stderr)
        return 1
    files += [name + AIOHTTP for name in files if given.all_paths or has_both_paths(name)]
    pending = [name for name in listed("pending.txt") if name.partition(":")[0] in files]
    results = run(given.suite, files, given.gateway, given.jobs)
    problems = problems_of(results, pending)
    # A second look, alone: on a busy machine a case may miss its time.
    failed = [name for name, found in results.items() if found is not None and name not in pending]
    if failed:
        found_in, names = zip(*(name.split(":", 1) for name in failed), strict=True)
        results |= run(given.suite, sorted(set(found_in)), given.gateway, 1, names)
        problems = problems_of(results, pending)
    print("\n".join(problems) or "as listed", flush=True)
    passed = sum(difference is None for difference in results.values())
    print(f"{len(files)} files: {passed} cases passed, {len(pending)} pending, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
