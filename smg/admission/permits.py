"""What admission gives and to whom: the permit to be at work, taken before a request's body is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from smg.admission.identity import Tenant


class Headers(Protocol):
    """Finds a header by its lower-case name."""

    def get(self, name: bytes, /) -> bytes | None: ...


class Asker(Protocol):
    """A request that asks for a permit. One that has `started` to answer is never interrupted;
    `interrupt` ends it without waiting for it."""

    @property
    def head(self) -> Headers: ...

    @property
    def tenant(self) -> Tenant: ...

    @property
    def started(self) -> bool: ...

    def interrupt(self) -> None: ...


class Permit(Protocol):
    """The right to be at work; released exactly once."""

    def release(self) -> None: ...


class Permits(Protocol):
    """Who may be at work: `Gate` or `Scheduler`. `allowed` and `rejected` count what became of requests."""

    @property
    def in_flight(self) -> int: ...

    @property
    def allowed(self) -> int: ...

    @property
    def rejected(self) -> int: ...

    def take(self, asker: Asker) -> Permit | None:
        """A permit if one is to be had now."""

    async def wait(self, asker: Asker) -> Permit:
        """Wait in line for it; raises 429 when the line is full and 503 when it took too long."""

    def snapshot(self) -> Mapping[str, object]:
        """What an operator may want to see."""

    def close(self) -> None:
        """Stop every timer."""
