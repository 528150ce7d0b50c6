"""Every stub in smg/_fast against its compiled module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAST = ROOT / "smg" / "_fast"


def test_every_compiled_module_has_a_stub() -> None:
    assert [path.stem for path in FAST.glob("*.pyx") if not path.with_suffix(".pyi").exists()] == []


def test_stubs_and_modules_are_equal(tmp_path: Path) -> None:
    modules = [f"smg._fast.{path.stem}" for path in sorted(FAST.glob("*.pyx"))]
    options = ["--allowlist", "tests/stubtest_allowlist.txt", "--mypy-config-file", "pyproject.toml"]
    command = [sys.executable, "-m", "mypy.stubtest", *options, *modules]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
