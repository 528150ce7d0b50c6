"""JSON whose objects keep every member that was written, a repeated one and its place included."""

from __future__ import annotations

import json
from typing import Any


class Pairs(list[tuple[str, Any]]):
    """An object's members in the order they were written."""

    def items_of(self, name: str) -> list[Any]:
        """The list that the last member of that name is; empty when there is none."""
        found = next((value for key, value in reversed(self) if key == name), None)
        return found if isinstance(found, list) and not isinstance(found, Pairs) else []


def read_pairs(text: bytes) -> Pairs:
    """`text` must be known to be an object of strict JSON; its numbers are left out."""
    read: Pairs = json.loads(text, object_pairs_hook=Pairs, parse_int=_no_number, parse_float=_no_number)
    return read


def read_objects(text: bytes) -> list[Pairs]:
    """The same for a list of objects."""
    read: list[Pairs] = json.loads(
        text, object_pairs_hook=Pairs, parse_int=_no_number, parse_float=_no_number
    )
    return read


def _no_number(written: str) -> None:
    return None
