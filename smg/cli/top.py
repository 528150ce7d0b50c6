"""`smg top`: what the console shows, in a terminal, until it is told to stop."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import select
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from smg.config import top as settings

if TYPE_CHECKING:
    from smg.cli.parser import Parser

EVERY_S = 2.0
ANSWER_S = 10.0
PRINTED_COLUMNS = 200
MAX_ANSWER_BYTES = 16 << 20
DATA = "/console/data"
_LEAVING = ("q", "Q", "\x03", "\x04")


class Unreachable(Exception):
    """No figures for now; the text says why."""


class Refused(Exception):
    """No figures with this key; the text says what to do."""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = subparsers.add_parser(
        "top",
        help="show what a running gateway does",
        description="Show the workers, rates, queues and errors of a running gateway. q leaves.",
    )
    parser.add_argument(
        "--url", metavar="URL", help=f"the gateway (default: {settings.URL}, or {settings.URL_VARIABLE})"
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help="an administrator's key. Other users of the machine see flags, so rather put it into "
        f"{settings.KEY_VARIABLE}; {settings.SHARED_KEY_VARIABLE} is taken as well.",
    )
    parser.add_argument("--once", action="store_true", help="print the figures once and end")


def run(args: argparse.Namespace) -> int:
    url, key = settings.url_of(args.url), settings.key_of(args.api_key)
    try:
        address = urlsplit(url)
        is_usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        print(f"smg top: {url!r} is no URL such as {settings.URL}", file=sys.stderr)
        return 2
    if key is not None and not (key.isascii() and key.isprintable()):
        print("smg top: the key has characters that no key may have", file=sys.stderr)
        return 2
    try:
        if args.once:
            return _print_once(url, key)
        return _watch(url, lambda: fetch(url, key))
    except Refused as refused:
        print(f"smg top: {refused}", file=sys.stderr)
    except Unreachable as problem:
        print(f"smg top: {url} gives no figures: {problem}", file=sys.stderr)
    return 1


def fetch(url: str, key: str | None) -> Any:
    """The console's data; raises `Unreachable` and `Refused`."""
    address = urlsplit(url)
    secure = address.scheme == "https"
    make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = make(address.hostname or "", address.port, timeout=ANSWER_S)
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    try:
        connection.request("GET", address.path.rstrip("/") + DATA, headers=headers)
        answer = connection.getresponse()
        body = answer.read(MAX_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as problem:
        raise Unreachable(
            getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        ) from None
    finally:
        connection.close()
    if answer.status in (401, 403):
        wanted = "another key" if key is not None else "an administrator's key"
        raise Refused(f"the gateway wants {wanted}; put it into {settings.KEY_VARIABLE}")
    if answer.status != 200:
        raise Unreachable(f"it answered {answer.status}")
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or len(body) > MAX_ANSWER_BYTES:
        raise Unreachable("its answer is no console's")
    return found


def _print_once(url: str, key: str | None) -> int:
    from rich.console import Console

    from smg.cli.top_view import board

    found = fetch(url, key)
    # What is no terminal has no width, and nothing is to be cut there.
    out = Console(width=None if sys.stdout.isatty() else PRINTED_COLUMNS)
    out.print(board(found, url))
    return 0


def _watch(url: str, read: Callable[[], Any]) -> int:
    from rich.console import Console
    from rich.live import Live

    from smg.cli.top_view import board, lost

    shown = None
    # Ctrl-C ends it also where a script in the background has made its children deaf to it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with _keys() as pressed, Live(console=Console(), screen=True, auto_refresh=False) as live:
        try:
            while True:
                try:
                    shown = read()
                    view = board(shown, url)
                except Unreachable as problem:
                    view = lost(shown, url, str(problem))
                live.update(view, refresh=True)
                if pressed(EVERY_S):
                    return 0
        except KeyboardInterrupt:
            return 0


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Waits so many seconds for a key, and says whether one that leaves was pressed."""
    if not sys.stdin.isatty():
        yield lambda seconds: bool(select.select([], [], [], seconds)[0])
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> bool:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return bool(ready) and sys.stdin.read(1) in _LEAVING

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
