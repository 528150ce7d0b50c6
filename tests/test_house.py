"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 600
BANNED = {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager", "managers"}
BANNED |= {"service", "services"}
SOURCES = sorted(p for p in (ROOT / "smg").rglob("*") if p.suffix in {".py", ".pyx", ".pxd", ".pyi"})
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# In brackets, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:w[o]rk|f[a]rm|r[o]ot|tmp/w)/")
UNFINISHED = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X|raise N[o]tImplementedError)\b")
# A sleep, a poll of one's own, or a wait for nothing to happen: see `tests/waiting.py`.
PAUSE = re.compile(r"\bsl[e]ep\(|ASYNC[1]10|raises\((?:asyncio\.)?Timeout[E]rror\b")
MAY_PAUSE = {
    "tests/waiting.py": "the home of bounded looks and of turns of the loop",
    "tests/fast/test_exchange_driver.py": "an exchange may wait for a sleep as for anything else",
}
METRIC = re.compile(r"`(smg_[a-z_0-9]*[a-z0-9])")
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
NAMED_FILE = re.compile(r"`((?:smg|docs|tools|tests|benches|deploy|\.ci)/[\w./*-]*)`")
GENERATED = {"build", "dist", "node_modules", ".venv", "__pycache__"}
TEXT = {".py", ".pyx", ".pxd", ".pyi", ".md", ".toml", ".sh", ".txt", ".json", ".service", ".yaml", ""}


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file that people wrote."""
    folders = [ROOT / name for name in ("smg", "tests", "tools", "benches", "docs", "deploy", ".ci")]
    found = [path for folder in folders for path in folder.rglob("*")]
    for path in [*found, *ROOT.glob("*")]:
        hidden = GENERATED & set(path.relative_to(ROOT).parts)
        if path.is_file() and path.suffix in TEXT and not hidden:
            yield path, path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_files_have_one_subject(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    assert not {part.partition(".")[0] for part in path.relative_to(ROOT).parts} & BANNED


@pytest.mark.parametrize("path", [p for p in SOURCES if p.suffix in {".py", ".pyx"}], ids=shown)
def test_modules_say_what_they_are_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or text.startswith('"""')


@pytest.mark.parametrize("path", [p for p in SOURCES if p.suffix == ".py"], ids=shown)
def test_only_the_configuration_reads_the_environment(path: Path) -> None:
    if path.relative_to(ROOT / "smg").parts[0] in ("config", "cli"):
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"))


def test_nothing_is_said_of_the_machine_it_was_written_on() -> None:
    assert not [shown(path) for path, text in texts() if MACHINE_PATH.search(text)]


def test_nothing_is_left_unfinished() -> None:
    conformance = ROOT / "tests" / "conformance"
    own = [(path, text) for path, text in texts() if conformance not in path.parents]
    assert not [shown(path) for path, text in own if UNFINISHED.search(text)]


def test_tests_wait_for_what_happens() -> None:
    """Not for a time: a busy machine makes it too short, an idle one too long."""
    conformance = ROOT / "tests" / "conformance"
    own = [path for path in (ROOT / "tests").rglob("*.py") if conformance not in path.parents]
    found = {shown(path) for path in own if PAUSE.search(path.read_text(encoding="utf-8"))}
    assert found == set(MAY_PAUSE)


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_links_and_metrics_of_pages_lead_somewhere(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    known = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert not [name for name in METRIC.findall(page) if name not in known]
    for name, _, place in (link.partition("#") for link in LINK.findall(page)):
        there = path.parent / name if name else path
        assert there.exists(), name
        heads = HEADING.findall(there.read_text(encoding="utf-8")) if place else []
        anchors = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
        assert not place or place in anchors, f"{name}#{place}"


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_pages_name_only_files_that_exist(path: Path) -> None:
    named = NAMED_FILE.findall(path.read_text(encoding="utf-8"))
    missing = [name for name in named if not list(ROOT.glob(name.rstrip("/")))]
    assert not missing


def test_the_life_of_a_request_begins_the_documentation() -> None:
    page = (ROOT / "docs" / "life-of-a-request.md").read_text(encoding="utf-8")
    for name in ("_fast/ingress.pyx", "gateway/serve.py", "gateway/route.py", "gateway/record.py"):
        assert f"`smg/{name}`" in page
