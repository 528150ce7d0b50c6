"""How the program starts itself and others, as a package and as an executable."""

from __future__ import annotations

import os
import sys

import pytest

from smg.cli.program import environment_for_children, own_command


@pytest.fixture
def executable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/opt/smg/smg")


def test_a_package_is_started_by_its_python() -> None:
    assert own_command() == (sys.executable, "-m", "smg")
    assert environment_for_children() == dict(os.environ)


@pytest.mark.usefixtures("executable")
def test_an_executable_starts_itself() -> None:
    assert own_command() == ("/opt/smg/smg",)


@pytest.mark.usefixtures("executable")
@pytest.mark.parametrize("before", [None, "/usr/local/cuda/lib64"])
def test_what_the_loader_of_the_executable_set_is_taken_back(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/smg/_internal")
    monkeypatch.setenv("_PYI_ARCHIVE_FILE", "/opt/smg/smg")
    monkeypatch.setenv("SMG_API_KEY", "kept")
    monkeypatch.delenv("LD_LIBRARY_PATH_ORIG", raising=False)
    if before is not None:
        monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", before)
    environ = environment_for_children()
    assert environ.get("LD_LIBRARY_PATH") == before
    assert environ["SMG_API_KEY"] == "kept"
    assert not [name for name in environ if name.startswith("_PYI_") or name.endswith("_ORIG")]
