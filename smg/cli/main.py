"""Entry point of `smg`: finds the command, imports only that one, and returns its exit status."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from smg import __version__
from smg.cli.parser import Parser

# Command → module with `add_parser(subparsers)` and `run(args) -> int`, and its line in `smg --help`.
COMMANDS = {
    "launch": ("smg.cli.launch", "start the gateway"),
    "serve": ("smg.cli.serve", "start engines and a gateway in front of them"),
    "sim": ("smg.cli.sim", "start a simulated engine"),
    "top": ("smg.cli.top", "show what a running gateway does"),
    "version": ("", "print the version"),
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    # Only words before the command can be options of `smg` itself, and those take no values.
    chosen = next((word for word in words if not word.startswith("-")), "")
    parser = Parser(prog="smg", description="An inference gateway in front of fleets of LLM engines.")
    parser.add_argument("--version", action="version", version=f"smg {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    module: ModuleType | None = None
    for name, (path, summary) in COMMANDS.items():
        if name == chosen and path:
            module = importlib.import_module(path)
            module.add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        (subparsers.choices[args.command] if args.command else parser).refuse_unknown(unknown)
    if args.command is None:
        parser.print_help()
        return 2
    if module is None:
        print(f"smg {__version__}")
        return 0
    status: int = module.run(args)
    return status
