"""The command line made from the Structs: an argparse parser with grouped help, and back to a `Config`.

Words are taken from the command line as they are and read by load.py, so that a flag, a variable
and the file are judged alike and all problems come together. Refused options are recognised too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from smg.config.fields import Field, Kind, fields_of, name_of
from smg.config.load import load
from smg.config.model import Config
from smg.config.refused import REFUSALS

_REFUSED = "refused_flags"
_EXCLUDED = "excluded_options"
_METAVARS = {Kind.INTEGER: "N", Kind.INTEGERS: "N,N,...", Kind.NUMBER: "X", Kind.NUMBERS: "X"}
# Kinds whose flag takes several words, and how argparse counts them.
_WORDS = {Kind.TEXTS: "*", Kind.SOME_TEXTS: "+", Kind.NUMBERS: "+", Kind.REPEATED_TEXTS: "+"}
_INTRODUCTION = (
    "Every option can also be set by an environment variable, SMG_ and its name in capitals "
    "(--health-check-port is SMG_HEALTH_CHECK_PORT), or in the file given with --config. "
    "A flag wins over the environment, the environment over the file."
)


def add_launch_options(parser: argparse.ArgumentParser, exclude: Collection[str] = ()) -> None:
    """Adds all options of the gateway to a parser, refused ones hidden.

    `exclude` names options (`worker_urls` or `--worker-urls`) that the command uses itself or decides.
    """
    excluded = frozenset(name_of(name) for name in exclude)
    parser.description = " ".join(filter(None, [parser.description, _INTRODUCTION]))
    parser.set_defaults(**{_EXCLUDED: excluded, _REFUSED: []})
    parser.add_argument("--config", metavar="FILE", help="YAML file of options: one name: value a line.")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for field in fields_of(Config):
        if field.name not in excluded:
            title = field.option.group
            group = groups.get(title) or groups.setdefault(title, parser.add_argument_group(title))
            _add(group, field)
    for refusal in REFUSALS:
        for flag in refusal.all_flags:
            if name_of(flag) not in excluded:
                values = 0 if flag in refusal.switches else "*"
                parser.add_argument(
                    flag, action=_Refused, nargs=values, dest=_REFUSED, help=argparse.SUPPRESS
                )


def config_from(
    args: argparse.Namespace,
    environ: Mapping[str, str] | None = None,
    fixed: Mapping[str, object] | None = None,
) -> Config:
    """The configuration from parsed arguments, or `ConfigError`.

    `fixed` gives values of excluded options, written as on the command line: a text, a list of texts
    or a bool by field name. `environ` is the process's own by default.
    """
    excluded: frozenset[str] = getattr(args, _EXCLUDED)
    # An excluded option's name may be taken by an option of the command's own.
    flags = {name: value for name, value in vars(args).items() if name not in excluded}
    return load(
        {**flags, **(fixed or {})},
        os.environ if environ is None else environ,
        refused=getattr(args, _REFUSED),
        excluded=excluded,
    )


class _Refused(argparse.Action):
    """Notes that a refused option was given, with whatever values."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), option_string])


def _add(group: argparse._ArgumentGroup, field: Field) -> None:
    # No default here: None says "not given", which load.py needs to know.
    how: dict[str, Any] = {"dest": field.name, "default": None, "help": help_of(field).replace("%", "%%")}
    if field.kind is Kind.SWITCH:
        how["action"] = "store_true"
    elif field.kind is Kind.TOGGLE:
        how["action"] = argparse.BooleanOptionalAction
    else:
        how["metavar"] = metavar_of(field)
        how["action"] = "extend" if field.kind in _WORDS else None
        how["action"] = "append" if field.kind is Kind.REPEATED else how["action"]
        how["nargs"] = _WORDS.get(field.kind)
        how = {key: value for key, value in how.items() if value is not None or key == "default"}
    group.add_argument(*field.flags, **how)


def metavar_of(field: Field) -> str:
    """What stands for the value in help and documentation."""
    option = field.option
    if option.choices:
        return "{" + ",".join(option.choices) + "}"
    return option.metavar or _METAVARS.get(field.kind, "TEXT")


def help_of(field: Field) -> str:
    """Help text with the default, where there is one to show."""
    default = default_text(field)
    return field.option.help if not default else f"{field.option.help} Default: {default}."


def default_text(field: Field) -> str:
    """The default as it would be written; empty when the option is unset or off."""
    if field.default is None or field.default == () or field.default is False:
        return ""
    return f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
