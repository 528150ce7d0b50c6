"""Faults of the simulated engine: what goes wrong, for which requests, how often.

A plan is a list of faults; each request takes what all matching faults say together.
"""

from __future__ import annotations

import random
from typing import Annotated, Literal

import msgspec

MAX_FAULTS = 64


class Fault(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that goes wrong.

    `delay` waits `seconds` before the answer; `stall` never answers; `reset` and `close` end the
    connection before the answer; `status` answers `status`; `cut` breaks a stream after
    `after_events` events (or another answer in its middle) as `how` says.
    """

    kind: Literal["delay", "stall", "reset", "close", "status", "cut"]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=86400)] = 0.0
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] = 503
    after_events: Annotated[int, msgspec.Meta(ge=0)] = 0
    how: Literal["close", "reset", "stall"] = "reset"
    on: Literal["requests", "probes", "all"] = "requests"
    requests: Annotated[int, msgspec.Meta(ge=1)] | None = None
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    fired: int = 0


class Cut(msgspec.Struct, frozen=True):
    """How an answer that has begun ends."""

    after_events: int
    how: str


class Verdict(msgspec.Struct):
    """What happens to one request."""

    delay_secs: float = 0.0
    action: str = ""
    status: int = 0
    cut: Cut | None = None


def parse(text: str) -> Fault:
    """A fault as written on a command line: `status,status=503,requests=3`. Raises `ValueError`."""
    kind, *fields = text.split(",")
    members: dict[str, str] = {"kind": kind}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise ValueError(f"expected name=value, got {field!r}")
        members[name.strip()] = value.strip()
    return msgspec.convert(members, Fault, strict=False)


def decode(body: bytes) -> list[Fault]:
    """The faults of a JSON body: one object or a list of them. Raises `ValueError`."""
    found = msgspec.json.decode(body, type=list[Fault] | Fault)
    faults = found if isinstance(found, list) else [found]
    if len(faults) > MAX_FAULTS:
        raise ValueError(f"more than {MAX_FAULTS} faults")
    return faults


class Plan:
    """The faults in force. The same seed and requests give the same verdicts."""

    def __init__(self, faults: list[Fault], seed: int) -> None:
        self.faults = faults
        self._random = random.Random(seed)  # noqa: S311

    def verdict(self, *, is_probe: bool) -> Verdict | None:
        """What happens to the next request, or None for nothing."""
        if not self.faults:
            return None
        side = "probes" if is_probe else "requests"
        verdict: Verdict | None = None
        for fault in self.faults:
            if fault.on not in (side, "all"):
                continue
            if fault.requests is not None and fault.fired >= fault.requests:
                continue
            if fault.probability < 1 and self._random.random() >= fault.probability:
                continue
            fault.fired += 1
            verdict = verdict or Verdict()
            if fault.kind == "delay":
                verdict.delay_secs += fault.seconds
            elif fault.kind == "cut":
                verdict.cut = Cut(fault.after_events, fault.how)
            else:
                verdict.action, verdict.status = fault.kind, fault.status
        return verdict
