"""The Dockerfile, as far as it can be judged without Docker; `tools/replay_image.py` carries it out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from smg.cli.main import COMMANDS
from tools.dockerfile import Ignored, Stage, copy_of, pairs_of, read, words_of

REPOSITORY = Path(__file__).parents[3]
DOCKERFILE = REPOSITORY / "deploy" / "docker" / "Dockerfile"
IGNORED = Ignored(Path(f"{DOCKERFILE}.dockerignore"))


@pytest.fixture
def build() -> Stage:
    return read(DOCKERFILE)[0]


@pytest.fixture
def image() -> Stage:
    return read(DOCKERFILE)[-1]


def test_both_stages_have_the_same_pinned_base() -> None:
    bases = {stage.image for stage in read(DOCKERFILE)}
    assert len(bases) == 1
    name, _, tag = bases.pop().partition(":")
    assert "/" not in name  # the registry is Docker's default
    assert re.fullmatch(r"\d+\.\d+-slim-\w+", tag)


def test_it_runs_as_a_number_that_is_not_root(image: Stage) -> None:
    user, _, group = image.last("USER").partition(":")
    values = yaml.safe_load((REPOSITORY / "deploy/helm/smg/values.yaml").read_text())
    assert int(user) == values["securityContext"]["runAsUser"] > 0
    assert int(group) == values["securityContext"]["runAsGroup"] > 0


def test_signals_reach_the_gateway(image: Stage) -> None:
    assert image.last("STOPSIGNAL") == "SIGTERM"
    assert words_of(image.last("ENTRYPOINT")) == ["smg"]
    command = words_of(image.last("CMD"))
    assert command[0] in COMMANDS and command[1:] == ["--host", "0.0.0.0"]


def test_the_compiler_stays_in_the_first_stage(build: Stage, image: Stage) -> None:
    assert any("gcc" in text for text in build.texts("RUN"))
    assert not image.texts("RUN")
    assert [copy_of(text).source_stage for text in image.texts("COPY")] == [build.name]


def test_what_is_copied_is_there(build: Stage) -> None:
    for text in build.texts("COPY"):
        for source in copy_of(text).sources:
            assert (REPOSITORY / source).exists()
            assert source not in IGNORED


@pytest.mark.parametrize(
    ("path", "is_ignored"),
    [
        ("smg/_fast/head.pyx", False),
        ("smg/server/console/console.html", False),
        ("smg/_fast/head.cpython-311-x86_64-linux-gnu.so", True),
        ("smg/cli/__pycache__/main.cpython-311.pyc", True),
        ("pyproject.toml", False),
        ("tests/conftest.py", True),
        (".git/config", True),
        ("README.md", False),
        ("docs/README.md", True),
    ],
)
def test_nothing_else_gets_into_the_build(path: str, is_ignored: bool) -> None:
    assert (path in IGNORED) is is_ignored


def test_its_extras_exist(build: Stage) -> None:
    import tomllib

    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = next(
        made["EXTRAS"] for text in build.texts("ARG") if "EXTRAS" in (made := pairs_of("ARG", text))
    )
    assert set(extras.split(",")) <= known.keys() - {"dev", "bench", "package"}


def test_it_holds_no_secret() -> None:
    assert not re.search(r"api.?key|token|password|secret", DOCKERFILE.read_text(), re.IGNORECASE)
