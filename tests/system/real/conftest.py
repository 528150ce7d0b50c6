"""What these tests need beyond Python: where it is not there, their files are not collected.

`.ci/run` installs them and names them: SMG_TEST_NODE_MODULES, a folder with npm's `openai` in its
node_modules, SMG_TEST_LLAMACPP, a Python that has `xllamacpp`, and SMG_TEST_CHROMIUM, a browser.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.processes import Processes

NODE_FOLDER = os.environ.get("SMG_TEST_NODE_MODULES")
LLAMACPP_PYTHON = os.environ.get("SMG_TEST_LLAMACPP")
CHROMIUM = os.environ.get("SMG_TEST_CHROMIUM")

collect_ignore = [
    name
    for name, needed in (
        ("test_node_sdk.py", NODE_FOLDER),
        ("test_llamacpp.py", LLAMACPP_PYTHON),
        ("test_console.py", CHROMIUM),
    )
    if not needed
]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory.mktemp("processes"))
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def simulated(started: Processes) -> str:
    """Base URL of a gateway in front of two simulated engines."""
    words = ("--host", "127.0.0.1", "--port", "0", "--prometheus-port", "0")
    banner = started.smg("serve", *words).wait_for("Stop it with Ctrl-C")
    return banner.split(" is ready at ")[1].split()[0] + "/v1"


@pytest.fixture(scope="session")
def node_folder() -> Path:
    assert NODE_FOLDER is not None
    return Path(NODE_FOLDER)


@pytest.fixture(scope="session")
def llamacpp_python() -> str:
    assert LLAMACPP_PYTHON is not None
    return LLAMACPP_PYTHON


@pytest.fixture(scope="session")
def chromium() -> str:
    assert CHROMIUM is not None
    return CHROMIUM
