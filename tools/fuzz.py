"""Coverage-guided fuzzing of what reads bytes from strangers, with atheris.

    python tools/fuzz.py TARGET [options of libFuzzer, such as -max_total_time=60]

Targets: decode (every surface's reader: only the errors it may raise), edits (members replaced, added and
removed: decoded, they equal the same change of the decoded text), profiles (chats of every model family: what
the worker gets is JSON, and so is what is made of that again). Needs atheris, which has wheels for few
versions of Python.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import atheris

with atheris.instrument_imports(include=["smg"]):
    from smg._fast.jsonedit import Edits, splice
    from smg._fast.jsonspan import JsonError, members
    from smg.api import decisions
    from smg.api.call import decode
    from smg.api.surfaces import SURFACES
    from smg.errors import GatewayError

SURFACE = {surface.endpoint: surface for surface in reversed(SURFACES) if not surface.takes_form}
FAMILIES = ("kimi-k2", "kimi-k3", "MiniMax-M2", "MiniMax-M3", "glm-4.6", "glm-5.3", "DeepSeek-V4", "gpt-oss")
DEEP = 500


@atheris.instrument_func
def parsed(text: bytes) -> Any:
    """By the standard library; None for what is no object. Duplicates keep their order."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=lambda pairs: ("object", pairs))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, tuple) else None


@atheris.instrument_func
def read(endpoint: str, body: bytes) -> bytes | None:
    reader = decisions.decode if endpoint == "decisions" else decode
    try:
        return reader(SURFACE[endpoint], body, lambda model: model).body
    except GatewayError as error:
        assert error.status in (400, 404, 422), error
        return None


def fuzz_decode(data: bytes) -> None:
    endpoints = sorted(SURFACE)
    if data:
        read(endpoints[data[0] % len(endpoints)], data[1:])


@atheris.instrument_func
def fuzz_edits(data: bytes) -> None:
    first, _, text = data.partition(b"\n")
    try:
        key = first.decode().encode()
        found = members(text)
    except (JsonError, UnicodeDecodeError):
        return
    whole = parsed(text)
    if found is None or whole is None or b'"' in key or b"\\" in key or min(key, default=32) < 32:
        return
    pairs = whole[1]
    word = key.decode()
    kept = [pair for pair in pairs if pair[0] != word]
    edits = Edits(text)
    found.remove(edits, key)
    assert parsed(edits.apply()) == ("object", kept)
    added = parsed(splice(text, [found.addition(b'"' + key + b'":[1]')]))
    assert added is not None and added[1][-1] == (word, [1]) and added[1][:-1] == pairs
    if key in found:
        changed = [(name, None) if name == word else (name, value) for name, value in pairs]
        assert parsed(found.replace(key, b"null")) == ("object", changed)


@atheris.instrument_func
def fuzz_profiles(data: bytes) -> None:
    if not data:
        return
    family = FAMILIES[data[0] % len(FAMILIES)].encode()
    body = b'{"model":"' + family + b'","messages":[{"role":"user","content":"x"}]' + data[1:] + b"}"
    written = read("chat", body)
    if written is not None:
        assert parsed(written) is not None, written
        again = read("chat", written)
        assert again is None or parsed(again) is not None, again


TARGETS: dict[str, Callable[[bytes], None]] = {
    "decode": fuzz_decode,
    "edits": fuzz_edits,
    "profiles": fuzz_profiles,
}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(__doc__)
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
