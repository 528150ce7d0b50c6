"""One data-parallel rank of an HTTP worker: the engine's address, and the rank's number in every body."""

from __future__ import annotations

from functools import partial
from typing import Any

from smg import errors
from smg._fast.exchange import Exchange
from smg._fast.jsonedit import splice
from smg._fast.jsonspan import members
from smg.api.call import LARGE_BODY
from smg.backends.http import JSON, Body, HttpBackend
from smg.backends.off_loop import free_apart, off_loop

_MEMBER = b"data_parallel_rank"


class RankBackend(HttpBackend):
    """As its parent, but raises 400 for what is no JSON."""

    async def ask(
        self, x: Exchange, lease: Any, path: bytes, body: Body, length: int, content_type: bytes = JSON
    ) -> bool:
        rank = self._worker.rank
        if not isinstance(body, bytes) or rank is None:
            raise errors.dp_aware_not_supported("What is no JSON")
        edit = large_with_rank if len(body) > LARGE_BODY else with_rank
        made = [await off_loop(len(body), partial(edit, body, rank.number))]
        try:
            return await super().ask(x, lease, path, made[0], len(made[0]), content_type)
        finally:
            free_apart(made)


def large_with_rank(body: bytes, rank: int) -> bytes:
    """As `with_rank`, in steps that let the loop go on: for a thread."""
    found = members(body)
    if found is None:
        return body
    number = b"%d" % rank
    if _MEMBER in found:
        return found.replace(_MEMBER, number)
    return splice(body, [found.addition(b'"%b":%b' % (_MEMBER, number))])


def with_rank(body: bytes, rank: int) -> bytes:
    """A JSON object with the member set, every other byte kept. Of a name given twice the last one counts,
    so that the end is the place that needs no look at the rest."""
    number = b"%d" % rank
    if _MEMBER in body:
        found = members(body)
        if found is not None and _MEMBER in found:
            return found.replace(_MEMBER, number)
    end = body.rfind(b"}")
    if end < 0:
        return body
    comma = b"" if body[:end].rstrip().endswith(b"{") else b","
    return b'%b%b"%b":%b%b' % (body[:end], comma, _MEMBER, number, body[end:])
