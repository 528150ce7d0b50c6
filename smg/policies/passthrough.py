"""Always the first worker: for a gateway in front of one engine or another balancer."""

from __future__ import annotations

from collections.abc import Sequence

from smg.policies.ask import Ask
from smg.workers.worker import Worker


class Passthrough:
    """The first worker that is available."""

    reads_body = False
    __slots__ = ()

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        return candidates[0]
