"""Endpoints whose requests are the workers' business: only the model and the stream flag are read."""

from __future__ import annotations

import msgspec

from smg import errors
from smg._fast.jsonspan import members
from smg.api.contract import Contract
from smg.api.draft import Draft, model_in


class NamedRequest(msgspec.Struct):
    model: str
    stream: bool | None = None


class PlainRequest(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None


_NAMED = Contract(NamedRequest)
_PLAIN = Contract(PlainRequest)


def read_plain(body: bytes, *, needs_model: bool, needs: bytes | None = None) -> Draft:
    """Check a body's JSON, these two members and that `needs` is there; raises 400."""
    contract = _NAMED if needs_model else _PLAIN
    draft = Draft(contract, contract.read(body), None)
    model = draft.written("model")
    draft.model = model_in(model) if model is not None else None
    if needs is not None:
        found = members(body)
        if found is None or needs not in found:
            raise errors.json_mismatch(f"missing field `{needs.decode()}`", body, len(body))
    return draft
