"""What the annotation of a configuration field says, and the list of all fields read from the Structs.

From this one list come the argparse parser, the environment names, the keys of the configuration
file, the range checks and docs/options.md.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

# Seconds in nanoseconds still fit 64 bits, and counters fit 32.
MOST = 2**31 - 1


class Kind(enum.Enum):
    """How an option is written; the values are the words of the option list."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"
    TOGGLE = "switch (--no- form)"
    TEXTS = "text, zero or more"
    SOME_TEXTS = "text, one or more"
    NUMBERS = "number, one or more"
    REPEATED = "repeatable text"
    REPEATED_TEXTS = "repeatable text, one or more"
    INTEGERS = "comma-separated integers"

    @property
    def is_list(self) -> bool:
        return self in (Kind.TEXTS, Kind.SOME_TEXTS, Kind.NUMBERS, Kind.REPEATED, Kind.REPEATED_TEXTS)

    @property
    def is_switch(self) -> bool:
        return self in (Kind.SWITCH, Kind.TOGGLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Second argument of a field's `Annotated`.

    `least` and `most` include their value, `above` does not. `parse` makes a specification of each
    text; an entry of several words is parsed as one text, and `begins_entry` knows its first word.
    `spellings` are further flags. The value of a `secret` option appears in no message.
    """

    group: str
    help: str
    spellings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    metavar: str = ""
    parse: Callable[[str], object] | None = None
    begins_entry: Callable[[str], bool] | None = None
    repeated: bool = False
    at_least_one: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One option: where its value lives, how it is written, what it may be."""

    section: str
    name: str
    kind: Kind
    default: object
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        return (flag_of(self.name), *self.option.spellings)

    @property
    def env(self) -> str:
        return env_of(self.name)

    @property
    def expected(self) -> str:
        """What a value has to be, for a message: `an integer from 0 to 65535`."""
        option = self.option
        if option.choices:
            return "one of " + ", ".join(option.choices)
        if self.kind is Kind.INTEGER:
            return f"an integer from {int(option.least or 0)} to {int(option.most or MOST)}"
        if self.kind is Kind.INTEGERS:
            return f"integers from {int(option.least or 0)} to {int(option.most or MOST)} between commas"
        if self.kind in (Kind.NUMBER, Kind.NUMBERS):
            return "a number" + _range(option)
        return "true or false" if self.kind.is_switch else "a text"

    def allows(self, number: float) -> bool:
        option = self.option
        least = option.least if option.least is not None or option.above is not None else 0
        most = option.most if option.most is not None else MOST
        return (
            (least is None or number >= least)
            and (option.above is None or number > option.above)
            and number <= most
        )


def flag_of(name: str) -> str:
    """`listen_port` → `--listen-port`."""
    return "--" + name.replace("_", "-")


def name_of(flag: str) -> str:
    """Name in the configuration file of a flag: `--listen-port` → `listen_port`."""
    return flag.removeprefix("--").replace("-", "_")


def env_of(name: str) -> str:
    """Environment variable of a field or flag name."""
    return "SMG_" + name_of(name).upper()


def fields_of(config: type[msgspec.Struct]) -> tuple[Field, ...]:
    """All options of a Struct of sections, in their order."""
    sections = typing.get_type_hints(config)
    return tuple(
        _field(section, info, hints[info.name])
        for section, struct in sections.items()
        for hints in (typing.get_type_hints(struct, include_extras=True),)
        for info in msgspec.structs.fields(struct)
    )


def _field(section: str, info: msgspec.structs.FieldInfo, hint: object) -> Field:
    annotated, option = typing.get_args(hint)
    return Field(section, info.name, _kind(annotated, option), info.default, option)


def _kind(annotated: object, option: Option) -> Kind:
    optional = typing.get_origin(annotated) is types.UnionType
    inner = typing.get_args(annotated)[0] if optional else annotated
    if typing.get_origin(inner) is tuple:
        if typing.get_args(inner)[0] is float:
            return Kind.NUMBERS
        if typing.get_args(inner)[0] is int:
            return Kind.INTEGERS
        if option.repeated:
            return Kind.REPEATED_TEXTS if option.at_least_one else Kind.REPEATED
        return Kind.SOME_TEXTS if option.at_least_one else Kind.TEXTS
    if inner is bool:
        return Kind.TOGGLE if optional else Kind.SWITCH
    return {int: Kind.INTEGER, float: Kind.NUMBER, str: Kind.TEXT}[typing.cast(type, inner)]


def _range(option: Option) -> str:
    low = f" above {option.above:g}" if option.above is not None else f" of at least {option.least or 0:g}"
    return low if option.most is None else f"{low} and at most {option.most:g}"
