"""Copies the conformance suite into tests/conformance from the folder given.

    python tools/refresh_conformance.py PATH/TO/conformance

Cases, tokenizers, scripted engines and the runner are replaced as they are; `built.txt` and
`pending.txt` are this project's own and stay. Vocabularies of published models are not copied.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "tests" / "conformance"
OWN = frozenset({"built.txt", "pending.txt"})
FILES = ("README.md", "GRPC.md", "run.py", "merge_stream.py", "mock_http.py", "mock_grpc.py")
FOLDERS = ("cases", "tokenizer-*")
REFUSED = frozenset({"harmony-vocab"})


def wanted(source: Path) -> list[Path]:
    """What is copied, as paths relative to `source`; raises FileNotFoundError for what lacks."""
    found = [Path(name) for name in FILES]
    for pattern in FOLDERS:
        folders = [one for one in sorted(source.glob(pattern)) if one.is_dir() and one.name not in REFUSED]
        if not folders:
            raise FileNotFoundError(f"{source} has no {pattern}")
        found += [
            path.relative_to(source)
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        ]
    for path in found:
        if not (source / path).is_file():
            raise FileNotFoundError(f"{source} has no {path}")
    return found


def refresh(source: Path, target: Path) -> tuple[int, int]:
    """Make `target` equal to the suite in `source`; how many files were written and removed."""
    if source.resolve() == target.resolve():
        raise ValueError("that is the copy itself")
    if source.name in REFUSED:
        raise ValueError(f"{source.name} is not copied: the vocabulary has a licence of its own")
    paths = wanted(source)
    written = removed = 0
    for path in paths:
        new = (source / path).read_bytes()
        old = target / path
        if not old.is_file() or old.read_bytes() != new:
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, old)
            written += 1
    known = {target / path for path in paths}
    for old in sorted(target.rglob("*")):
        if old.is_file() and old not in known and old.name not in OWN and "__pycache__" not in old.parts:
            old.unlink()
            removed += 1
    return written, removed


def main() -> int:
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("source", type=Path, help="folder that holds run.py and cases/")
    given = parser.parse_args()
    try:
        written, removed = refresh(given.source, TARGET)
    except (OSError, ValueError) as problem:
        print(f"refresh_conformance: {problem}", file=sys.stderr)
        return 1
    print(f"{written} files written, {removed} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
