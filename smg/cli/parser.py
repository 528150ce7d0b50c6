"""The argument parser of all commands: errors in one sentence, a hint for unknown flags, rich help."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable
from typing import NoReturn

from rich_argparse import RichHelpFormatter


class Help(RichHelpFormatter):
    """Help in colours; texts are shown as they are, brackets are no markup."""

    help_markup = False
    text_markup = False
    group_name_formatter = str


class Parser(argparse.ArgumentParser):
    """Subparsers made from it are of this class too."""

    def __init__(self, **how: object) -> None:
        super().__init__(**{"formatter_class": Help, "allow_abbrev": False, **how})  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry '{self.prog} --help'.\n")

    def refuse_unknown(self, words: Iterable[str]) -> NoReturn:
        """Ends the program because of words that no option takes."""
        words = list(words)
        # A word after an unknown option is most likely its value.
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        self.error("; ".join(map(self._unknown, flags)) or f"unexpected argument {words[0]!r}")

    def _unknown(self, flag: str) -> str:
        near = difflib.get_close_matches(flag, self._option_string_actions, 1)
        return f"unknown option {flag}" + (f", did you mean {near[0]}?" if near else "")
