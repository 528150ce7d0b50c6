"""Who may import whom: downwards only, never sideways between siblings; read from the source lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ORDER = [
    "_fast",
    "errors",
    "config",
    "telemetry",
    "state",
    "sim",
    "api",
    "text",
    "workers",
    "policies",
    "admission",
    "history",
    "mcp",
    "backends",
    "gateway",
    "server",
    "cli",
]
SIBLINGS = [
    {"policies", "admission"},
    {"policies", "backends"},
    {"admission", "backends"},
    {"sim", "api"},
]
# What a package must not know, by the top-level name of the import.
FOREIGN = {
    "_fast": {"logging", "os", "aiohttp", "msgspec", "socket"},
    "errors": {"aiohttp", "asyncio", "logging", "socket"},
    "api": {"aiohttp", "asyncio", "logging", "socket", "time"},
    "text": {"aiohttp", "asyncio", "logging", "socket", "time"},
    "policies": {"aiohttp", "asyncio", "socket"},
    "admission": {"aiohttp", "socket"},
    "gateway": {"aiohttp", "socket"},
    "backends": {"aiohttp"},
    "sim": {"aiohttp"},
}
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi"}
SOURCES = sorted(path for path in (ROOT / "smg").rglob("*") if path.suffix in SUFFIXES)

FROM_PACKAGE = re.compile(r"^[ \t]*from[ \t]+smg\.(\w+)[\w.]*[ \t]+c?import\b", re.M)
PLAIN = re.compile(r"^[ \t]*c?import[ \t]+smg\.(\w+)", re.M)
FROM_ROOT = re.compile(r"^[ \t]*from[ \t]+smg[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)", re.M)
RELATIVE = re.compile(r"^[ \t]*from[ \t]+\.", re.M)
ANY = re.compile(r"^[ \t]*(?:from|c?import)[ \t]+(\w+)", re.M)


def package_of(path: Path) -> str:
    return path.relative_to(ROOT / "smg").parts[0].partition(".")[0]


def packages_named_in(text: str) -> set[str]:
    found = {*FROM_PACKAGE.findall(text), *PLAIN.findall(text)}
    for names in FROM_ROOT.findall(text):
        found.update(name.split()[0] for name in names.strip("()").split(",") if name.strip())
    return found


def problem_of(own: str, other: str) -> str:
    """Why `own` must not import `other`; empty when it may."""
    if own not in ORDER or other not in ORDER:
        return ""
    if ORDER.index(other) > ORDER.index(own):
        return f"{own} imports upwards: {other}"
    return f"{own} imports its sibling {other}" if {own, other} in SIBLINGS else ""


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_imports_point_down(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    own = package_of(path)
    problems = [problem_of(own, other) for other in sorted(packages_named_in(text))]
    assert not [problem for problem in problems if problem]
    assert not RELATIVE.search(text), "imports are absolute, so that this test can see them"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_packages_do_not_know_what_is_not_their_business(path: Path) -> None:
    if path.suffix == ".pyi":
        return
    known = set(ANY.findall(path.read_text(encoding="utf-8")))
    assert not known & FOREIGN.get(package_of(path), set())


def test_every_package_has_its_place_in_the_order() -> None:
    packages = {package_of(path) for path in SOURCES} - {"__init__", "__main__"}
    assert packages <= set(ORDER)


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("from smg.gateway.serve import serve", {"gateway"}),
        ("    from smg.server import app", {"server"}),
        ("from smg._fast.head cimport RequestHead", {"_fast"}),
        ("cimport smg._fast.head", {"_fast"}),
        ("import smg.cli.main", {"cli"}),
        ("from smg import errors, config as c", {"errors", "config"}),
        ("from smg import (\n    errors,\n    api,\n)", {"errors", "api"}),
        ("from smgx.gateway import serve", set()),
    ],
)
def test_import_lines_are_understood(line: str, packages: set[str]) -> None:
    assert packages_named_in(line) == packages


def test_a_wrong_direction_is_found() -> None:
    assert problem_of("_fast", "gateway")
    assert problem_of("admission", "policies")
    assert not problem_of("gateway", "policies")
    assert not problem_of("gateway", "gateway")
