"""The quick files of the conformance suite, through its own runner; `.ci/run` runs all that are built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["http-stream", "http-generate", "http-headers"])
def test_cases_pass_as_listed(name: str) -> None:
    command = [sys.executable, "tools/check_conformance.py", name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
