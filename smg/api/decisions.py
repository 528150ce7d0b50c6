"""The request of `/v1/decisions`: its body checked, its call.

The schema only checks. A worker that speaks Decisions gets the client's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from smg import errors
from smg._fast.jsonedit import splice
from smg._fast.jsonspan import JsonError, Members, members
from smg.api.call import Call
from smg.api.decisions_findings import Findings
from smg.api.decisions_reading import PIECE, Misfit, Span, read
from smg.api.draft import model_in
from smg.api.surfaces import Surface

LARGE_DECISIONS = 32 * 1024
"""A body above this is read in a thread: to look at every question takes longer than to check a chat."""

_CHECKS = ("input", "model", "questions", "safety_identifier")
"""The fields that have limits, in the order in which they are reported."""


class Decisions(Call):
    """`findings`: what its body was found to be; `evidence`, `questions`: where these members stand in it."""

    __slots__ = ("evidence", "findings", "questions")

    def __init__(self, surface: Surface, model: str, found: Members, findings: Findings) -> None:
        super().__init__(surface, model, False, found.text)
        self.findings = findings
        self.evidence = _span(found, b"input")
        self.questions = _span(found, b"questions")


def decode(surface: Surface, body: bytes, resolve: Callable[[str], str], piece: int = PIECE) -> Decisions:
    """Check the body and read the call from it; `resolve` gives a model's canonical name. Raises 400, and 404
    for a model that cannot be. May run in any thread; `piece`: bytes that are decoded in one step."""
    found = _members(body)
    try:
        findings = read(body, found.start, found.end, piece)
    except Misfit as misfit:
        raise _mismatch(misfit, found) from None
    if findings.repeated is not None:
        raise errors.json_mismatch(f"duplicate field `{findings.repeated}`", body, len(body))
    problems = [f"{name}: {findings.problems[name]}" for name in _CHECKS if name in findings.problems]
    if problems:
        raise errors.validation_failed("\n".join(problems))
    start, end = _span(found, b"model")
    sent = model_in(body[start:end])
    model = resolve(sent)
    if model != sent:
        found = _members(splice(body, [(start, end, msgspec.json.encode(model))]))
    return Decisions(surface, model, found, findings)


def _members(body: bytes) -> Members:
    try:
        found = members(body)
    except JsonError as error:
        raise errors.json_syntax_error(str(error), body, error.position) from None
    if found is None:
        raise errors.json_mismatch("invalid type: the body must be a JSON object", body, 0)
    return found


def _span(found: Members, name: bytes) -> Span:
    """Where a member's value stands that is known to be there."""
    span = found.span(name)
    assert span is not None
    return span


def _mismatch(misfit: Misfit, found: Members) -> errors.GatewayError:
    """Words a misfit with the path in front, and the place of the member it is in."""
    path = misfit.path.removeprefix(".")
    member = path.partition(".")[0].partition("[")[0]
    span = found.span(member.encode()) if member else None
    position = span[0] if span is not None else len(found.text)
    return errors.json_mismatch(f"{path}: {misfit.what}" if path else misfit.what, found.text, position)
