"""`smg launch`: reads the configuration and runs the gateway until it is told to stop."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from smg.config.load import ConfigError
from smg.config.options import add_launch_options, config_from

if TYPE_CHECKING:
    from smg.cli.parser import Parser


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = subparsers.add_parser(
        "launch",
        help="start the gateway",
        usage="smg launch [--worker-urls URL ...] [options]",
        description="Start the gateway in front of HTTP workers.",
    )
    add_launch_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        config = config_from(args)
    except ConfigError as refused:
        print(f"smg launch: {refused.render()}", file=sys.stderr)
        return 2
    # Imported late: `smg launch --help` and a refused start need no server.
    from smg.server.lifecycle import run as run_gateway

    return run_gateway(config)
