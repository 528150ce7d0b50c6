"""A checked request on its way to the worker: what was found in it, and the edits its bytes still need."""

from __future__ import annotations

from typing import Any

import msgspec

from smg import errors
from smg._fast.jsonedit import Edits
from smg._fast.jsonfound import Found
from smg._fast.jsonspan import Members, members_at
from smg.api.contract import Contract

NULL = b"null"
LONGEST_MODEL = 4096
"""Bytes of a model's name as written."""

_text = msgspec.json.Decoder(str).decode


def model_in(written: bytes) -> str:
    """A model's name. Raises 404 for one so long that there can be none, before it is searched and shown."""
    if len(written) > LONGEST_MODEL:
        raise errors.model_not_found(written[1:80].decode("utf-8", "replace") + "…")
    return _text(written)


class Draft:
    """`text` is what the client sent; nothing changes it before `finish`.

    `model` is the name as sent. `dropped` names what another model family's fields lost, for one warning.
    """

    __slots__ = ("_added", "_removed", "contract", "dropped", "edits", "found", "model", "present", "text")

    def __init__(self, contract: Contract, found: Found, model: str | None) -> None:
        self.contract = contract
        self.found = found
        self.text = found.text
        self.present = found.present
        self.model = model
        self.edits = Edits(found.text)
        self.dropped: tuple[str, ...] = ()
        self._added: list[bytes] = []
        self._removed: list[bytes] = []

    # ---- reading

    def has(self, field: str) -> bool:
        """Is the field there, and not null?"""
        return bool(self.present >> self.contract.slots[field] & 1)

    def written(self, field: str) -> bytes | None:
        """A field's value as written; None when it is absent or null."""
        slot = self.contract.slots[field]
        return self.found.value(slot) if self.present >> slot & 1 else None

    def value(self, field: str) -> Any:
        """A small field's value; None when it is absent or null."""
        written = self.written(field)
        return None if written is None else msgspec.json.decode(written)

    def start(self, field: str) -> int:
        """Where the value of a field that is there begins."""
        return self.span(field)[0]

    def span(self, field: str) -> tuple[int, int]:
        """Where the value of a field that is there stands."""
        place = self.found.place(self.contract.slots[field])
        assert place is not None
        return place[2], place[3]

    def inside(self, field: str) -> Members | None:
        """The members of a field that is an object; None when it is absent or null."""
        return members_at(self.text, self.start(field)) if self.has(field) else None

    # ---- editing

    def replace(self, field: str, written: bytes) -> None:
        """Change the value of a field that is there, null or not, or add the field."""
        place = self.found.place(self.contract.slots[field])
        if place is None:
            self._added.append(b'"' + field.encode() + b'":' + written)
        else:
            self.edits.put(place[2], place[3], written)

    def default(self, field: str, written: bytes) -> None:
        """Give a field its value unless it has one."""
        if not self.has(field):
            self.replace(field, written)

    def put_inside(self, field: str, name: bytes, written: bytes) -> None:
        """Set a member of an object; the object is made when it is absent or null."""
        held = self.inside(field)
        if held is None:
            self.replace(field, b'{"' + name + b'":' + written + b"}")
            return
        span = held.span(name)
        if span is None:
            self.edits.put(*held.addition(b'"' + name + b'":' + written))
        else:
            self.edits.put(*span, written)

    def remove(self, name: bytes) -> None:
        """Take every member of that name out of the outermost object."""
        self._removed.append(name)

    def finish(self) -> bytes:
        """What the worker gets."""
        if self._removed:
            self.found.remove(self.edits, *self._removed)
        if self._added:
            self.edits.put(*self.found.addition(b",".join(self._added)))
        return self.edits.apply()
