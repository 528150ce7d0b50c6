"""How this program is started again, and the environment of the programs it starts.

It is a package of a Python, or an executable of its own (`tools/build_executable.py`), which has no Python to
offer and whose loader points LD_LIBRARY_PATH at the libraries it brings along.
"""

from __future__ import annotations

import os
import sys

_SEARCH_PATH = "LD_LIBRARY_PATH"
_LOADER = "_PYI_"


def is_executable() -> bool:
    """Whether this is the executable."""
    return bool(getattr(sys, "frozen", False))


def own_command() -> tuple[str, ...]:
    """The words before the name of a command of ours."""
    return (sys.executable,) if is_executable() else (sys.executable, "-m", "smg")


def environment_for_children() -> dict[str, str]:
    """Our environment as it was before the executable's loader changed it."""
    environ = dict(os.environ)
    if is_executable():
        environ = {name: value for name, value in environ.items() if not name.startswith(_LOADER)}
        before = environ.pop(_SEARCH_PATH + "_ORIG", None)
        environ.pop(_SEARCH_PATH, None)
        if before is not None:
            environ[_SEARCH_PATH] = before
    return environ
