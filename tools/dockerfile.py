"""Reads a Dockerfile, as far as ours goes: its stages, their steps, and what its ignore file leaves out."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass
class Stage:
    """`steps` are pairs of an instruction in capitals and its text, with variables of ARG still in them."""

    name: str
    image: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def texts(self, instruction: str) -> list[str]:
        return [text for kind, text in self.steps if kind == instruction]

    def last(self, instruction: str) -> str:
        return self.texts(instruction)[-1]


@dataclass
class Copy:
    source_stage: str | None
    sources: list[str]
    target: str


def read(path: Path) -> list[Stage]:
    """The stages in their order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    stages: list[Stage] = []
    arguments: dict[str, str] = {}
    for line in code.replace("\\\n", " ").splitlines():
        kind, _, text = line.strip().partition(" ")
        if kind.upper() == "FROM":
            image, _, name = text.partition(" AS ")
            stages.append(Stage(name.strip() or str(len(stages)), expand(image.strip(), arguments)))
        elif kind.upper() == "ARG" and not stages:
            arguments |= pairs_of("ARG", text)
        elif kind:
            stages[-1].steps.append((kind.upper(), text.strip()))
    return stages


def pairs_of(instruction: str, text: str) -> dict[str, str]:
    """The names and values of ARG, ENV and LABEL; an ARG may have no value."""
    words = [word.partition("=") for word in shlex.split(text)]
    if instruction != "ARG" and not all(sign for _, sign, _ in words):
        raise ValueError(f"{instruction} {text}: only NAME=VALUE is understood")
    return {name: value for name, _, value in words}


def words_of(text: str) -> list[str]:
    """An instruction in its exec form."""
    words: list[str] = json.loads(text)
    return words


def copy_of(text: str) -> Copy:
    words = shlex.split(text)
    stage = None
    while words[0].startswith("--"):
        flag, _, value = words.pop(0).partition("=")
        if flag != "--from":
            raise ValueError(f"COPY {flag} is not understood")
        stage = value
    return Copy(stage, words[:-1], words[-1])


def expand(text: str, values: dict[str, str]) -> str:
    """Known variables replaced; others are left to the shell."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), text)


class Ignored:
    """Says which paths of the context do not get into the build."""

    def __init__(self, path: Path) -> None:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        self._rules = [line for line in lines if line and not line.startswith("#")]

    def __contains__(self, path: str) -> bool:
        ignored = False
        parts = path.split("/")
        ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        for rule in self._rules:
            pattern = rule.removeprefix("!")
            anywhere = pattern.removeprefix("**/")
            fits = any(
                fnmatch.fnmatchcase(way.rpartition("/")[2] if anywhere != pattern else way, anywhere)
                and (anywhere != pattern or way.count("/") == pattern.count("/"))
                for way in ways
            )
            ignored = not rule.startswith("!") if fits else ignored
        return ignored
