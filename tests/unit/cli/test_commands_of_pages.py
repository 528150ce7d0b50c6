"""Every `smg` command in the documentation is one that starts, with the files that its page shows for it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from smg.cli import launch, serve, sim, top
from smg.cli.parser import Parser
from smg.config.options import config_from

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )?smg (?:launch|serve|sim|top) [^`]+)`")
SHELLS = {"sh", "bash", "console"}
COMMANDS = {"launch": launch, "serve": serve, "sim": sim, "top": top}
LEFT_OUT = {"…", "..."}
SOCKETS = "/run/smg"


def commands(page: str) -> Iterator[tuple[int, dict[str, str], list[str]]]:
    """Where each command stands, its environment, and its words from the subcommand on."""
    found = [(match.end(), match[2]) for match in BLOCK.finditer(page) if match[1] in SHELLS]
    found += [(match.end(), match[1]) for match in INLINE.finditer(page)]
    for place, text in found:
        for words in lines(text):
            for at, (program, command) in enumerate(pairwise(words)):
                if Path(program).name == "smg" and command in COMMANDS:
                    given = [word.partition("=") for word in words[:at] if re.match(r"[A-Z_]+=", word)]
                    environ = {name: value for name, _, value in given}
                    yield place, environ, [word for word in words[at + 1 :] if word not in LEFT_OUT]


def lines(text: str) -> Iterator[list[str]]:
    """The words of each command line; a quoted text may go over several."""
    begun = ""
    for line in text.replace("\\\n", " ").splitlines():
        begun += line.removeprefix("$ ")
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:
            begun += "\n"
            continue
        begun = ""
        yield words
    assert not begun, begun


ALL = [
    pytest.param(page, place, environ, words, id=f"{page.stem}: {' '.join(words)[:60]}")
    for page in PAGES
    for place, environ, words in commands(page.read_text(encoding="utf-8"))
]


def test_there_are_commands() -> None:
    assert len(ALL) > 15


@pytest.mark.parametrize(("page", "place", "environ", "words"), ALL)
def test_a_command_of_the_documentation(
    page: Path,
    place: int,
    environ: dict[str, str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.replace(SOCKETS, ".") for word in words]
    for word in words:
        if word.endswith((".yaml", ".json")) and not word.startswith("/"):
            kind = word.rpartition(".")[2]
            shown = BLOCK.finditer(page.read_text(encoding="utf-8"), place)
            (tmp_path / word).write_text(next(block[2] for block in shown if block[1] == kind))
    command, *_ = words
    parser = Parser(prog="smg")
    COMMANDS[command].add_parser(parser.add_subparsers(dest="command"))
    args, unknown = parser.parse_known_args(words)
    assert unknown == []
    if command == "launch":
        config_from(args, environ)
    elif command == "serve" and args.backend == "sim":
        serve.plan_from(args)
