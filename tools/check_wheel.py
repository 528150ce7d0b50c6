"""Builds the sdist, and from it the wheel, and looks into both: `python tools/check_wheel.py`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAST = sorted((ROOT / "smg" / "_fast").glob("*.pyx"))


def build(folder: Path) -> tuple[set[str], set[str]]:
    """Names in the sdist and in the wheel made from it."""
    backend = "import setuptools.build_meta as b, sys; print(b.build_sdist(sys.argv[1]))"
    make = [sys.executable, "-c", backend, str(folder)]
    subprocess.run(make, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    sdist = next(folder.glob("*.tar.gz"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--wheel-dir", str(folder), str(sdist)],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        return source, set(archive.namelist())


def problems_of(source: set[str], wheel: set[str]) -> list[str]:
    found = []
    for path in FAST:
        stem = f"smg/_fast/{path.stem}"
        declared = [".pyi", ".pxd"] if path.with_suffix(".pxd").exists() else [".pyi"]
        found += [f"sdist lacks {stem}{end}" for end in (".pyx", *declared) if stem + end not in source]
        found += [f"wheel lacks {stem}{end}" for end in declared if stem + end not in wheel]
        if not any(name.startswith(stem + ".") and name.endswith(".so") for name in wheel):
            found.append(f"wheel lacks the compiled {stem}")
    for name in ("smg/py.typed", *(f"smg/server/console/console.{end}" for end in ("html", "css", "js"))):
        if name not in source & wheel:
            found.append(f"sdist or wheel lacks {name}")
    found += [f"wheel holds {name}" for name in sorted(wheel) if name.endswith((".c", ".pyx"))]
    found += [f"wheel holds {name}" for name in sorted(wheel) if not name.startswith(("smg/", "smg-"))]
    return found + [f"sdist holds {name}" for name in sorted(source) if name.endswith((".c", ".so"))]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        source, wheel = build(Path(folder))
    problems = problems_of(source, wheel)
    print("\n".join(problems) or f"sdist: {len(source)} files, wheel: {len(wheel)} files, as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
