"""The OpenAI SDK for JavaScript through a real gateway."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).with_name("node_sdk.mjs")


def test_lists_chats_and_streams(simulated: str, node_folder: Path) -> None:
    command = ["node", str(SCRIPT), str(node_folder), simulated, "simulated-model", "What are you?"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 0, ended.stderr
    got = json.loads(ended.stdout)
    assert got["models"] == ["simulated-model"]
    assert got["chat"].startswith("This is a simulated engine")
    assert got["stream"] == got["chat"]
    assert got["chunks"] > 3
    assert got["refused"] == {"status": 404, "code": "model_not_found"}
