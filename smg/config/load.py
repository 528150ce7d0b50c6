"""Finds every option's value (flag, environment, file, default, in this order) and checks the whole.

All problems are collected and reported together in one `ConfigError`. This is the only place that
knows where a value came from.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from smg.config.fields import Field, Kind, env_of, fields_of, name_of
from smg.config.model import Config
from smg.config.refused import REFUSED_VALUES, refusals_by_name
from smg.config.rules import RULES
from smg.config.specs import resolve_aliases
from smg.config.values import from_environment, from_file, from_flag, truth

# Kubernetes describes a Service named `smg` to its pods as SMG_PORT=tcp://10.0.0.1:30000.
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
_Given = TypeVar("_Given")


class ConfigError(Exception):
    """Why the gateway does not start; one sentence per problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))

    def render(self) -> str:
        """The problems as the lines shown to the user."""
        count = len(self.problems)
        head = "cannot start, there " + ("is a problem:" if count == 1 else f"are {count} problems:")
        return "\n".join([head, *(f"  - {problem}" for problem in self.problems)])


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    refused: Iterable[str] = (),
    excluded: Collection[str] = (),
) -> Config:
    """The configuration, or `ConfigError`.

    `flags` maps field names (and `config` for the file) to the words given, None where not given.
    `refused` are flags of refused options that were given. Names in `excluded` belong to somebody
    else: neither the environment nor the file is asked for them.
    """
    reader = _Reader(flags, environ, excluded)
    reader.refuse_flags(refused)
    given = {field.name: value for field in fields_of(Config) if (value := reader.read(field)) is not None}
    if "uds" in given:
        given.setdefault("port", None)
    config = _build(given)
    problems = [*reader.problems, *check(config, reader.unread)]
    if problems:
        raise ConfigError(problems)
    aliases = resolve_aliases(config.routing.model_alias)
    return replace(config, routing=replace(config.routing, model_alias=aliases))


def _build(given: Mapping[str, object]) -> Config:
    sections: dict[str, dict[str, object]] = {}
    for field in fields_of(Config):
        if field.name in given:
            sections.setdefault(field.section, {})[field.name] = given[field.name]
    config = Config()
    made = {name: replace(getattr(config, name), **values) for name, values in sections.items()}
    return replace(config, **made)


def check(config: Config, unread: Collection[str] = ()) -> list[str]:
    """Problems across fields. Rules about the fields named in `unread` are left out."""
    return [problem for names, rule in RULES if names.isdisjoint(unread) for problem in rule(config)]


class _Reader:
    """Reads one field after the other and notes what is wrong.

    `unread` are the fields whose value is wrong; they keep their default until the end is reported.
    """

    def __init__(
        self, flags: Mapping[str, object], environ: Mapping[str, str], excluded: Collection[str]
    ) -> None:
        self.problems: list[str] = []
        self.unread: set[str] = set()
        self._flags = flags
        self._environ = environ
        self._excluded = excluded
        self._refusals = {name: entry for name, entry in refusals_by_name().items() if name not in excluded}
        self._path = str(flags.get("config") or environ.get(env_of("config")) or "")
        self._file = self._read_file() if self._path else {}
        self._refuse_variables()

    def refuse_flags(self, flags: Iterable[str]) -> None:
        for flag in dict.fromkeys(flags):
            self.problems.append(self._refusals[name_of(flag)][1].sentence(flag))

    def read(self, field: Field) -> object:
        """The field's value, or None where nobody gave one (or a wrong one)."""
        if (given := self._flags.get(field.name)) is not None:
            return self._convert(field, field.flags[0], given, from_flag)
        if field.name in self._excluded:
            return None
        if text := self._variable(field.name, is_port=field.kind is Kind.INTEGER):
            return self._convert(field, field.env, text, from_environment)
        if (value := self._file.get(field.name)) is not None:
            return self._convert(field, f"{field.name} in {self._path}", value, from_file)
        return None

    def _convert(
        self, field: Field, where: str, given: _Given, convert: Callable[[Field, _Given], object]
    ) -> object:
        refused = REFUSED_VALUES.get(field.name, {})
        try:
            if isinstance(given, str) and given in refused:
                self.problems.append(f"{where} {given} {refused[given]}")
                self.unread.add(field.name)
                return None
            return convert(field, given)
        except ValueError as problem:
            self.problems.append(f"{where}: {problem}")
            self.unread.add(field.name)
            return None

    def _variable(self, name: str, *, is_port: bool) -> str:
        """Text of the field's environment variable; empty when it is unset, empty or not meant for us."""
        text = self._environ.get(env_of(name), "")
        return "" if not text.strip() or (is_port and _SERVICE_LINK.match(text)) else text

    def _read_file(self) -> dict[str, object]:
        """Top-level members of the file that name an option; the others are noted as problems."""
        # Only who has a file pays for the YAML parser.
        import msgspec.yaml

        try:
            content = msgspec.yaml.decode(Path(self._path).read_bytes(), type=dict[str, object] | None)
        except OSError as problem:
            self.problems.append(f"the configuration file {self._path} cannot be read: {problem.strerror}")
            return {}
        except msgspec.MsgspecError as problem:
            text = " ".join(str(problem).split())
            self.problems.append(f"the configuration file {self._path} is no YAML mapping of options: {text}")
            return {}
        members = {name_of(str(name)): value for name, value in (content or {}).items()}
        known = {field.name for field in fields_of(Config)}
        for name in [name for name in members if name not in known]:
            self._refuse_member(name, members.pop(name), known)
        return members

    def _refuse_member(self, name: str, value: object, known: Collection[str]) -> None:
        if name in self._refusals:
            _, refusal, is_switch = self._refusals[name]
            if value is not None and not (is_switch and value is False):
                self.problems.append(refusal.sentence(f"{name} in {self._path}"))
            return
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        self.problems.append(f"{name} in {self._path} is not an option{hint}")

    def _refuse_variables(self) -> None:
        for name, (_, refusal, is_switch) in self._refusals.items():
            text = self._variable(name, is_port=True)
            if text and not (is_switch and _is_off(text)):
                self.problems.append(refusal.sentence(env_of(name)))


def _is_off(text: str) -> bool:
    try:
        return not truth(text)
    except ValueError:
        return False
