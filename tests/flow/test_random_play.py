"""Whatever happens in whatever order: no load, permit, deadline, exchange or byte of memory is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_left(seed: int) -> None:
    """In a process whose memory is guarded."""
    words = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.flow.random_play", str(seed), "120"]
    environment = os.environ | {"PYTHONMALLOC": "debug"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
