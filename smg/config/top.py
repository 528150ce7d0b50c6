"""Where `smg top` finds the gateway and its key when no flag says so; a key in a flag is seen by every user
of the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

URL = "http://127.0.0.1:30000"
URL_VARIABLE = "SMG_TOP_URL"
KEY_VARIABLE = "SMG_TOP_API_KEY"
SHARED_KEY_VARIABLE = "SMG_API_KEY"


def url_of(flag: str | None, environ: Mapping[str, str] | None = None) -> str:
    """The gateway's URL: the flag, else the variable, else the usual one."""
    environ = os.environ if environ is None else environ
    return flag or environ.get(URL_VARIABLE) or URL


def key_of(flag: str | None, environ: Mapping[str, str] | None = None) -> str | None:
    """The administrator's key: the flag, else the variable, else the key the gateway itself is given."""
    environ = os.environ if environ is None else environ
    found = flag or environ.get(KEY_VARIABLE) or environ.get(SHARED_KEY_VARIABLE) or ""
    return found.strip() or None
