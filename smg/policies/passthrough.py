"""Always the first worker: for a gateway in front of one engine or another balancer."""

from __future__ import annotations

from collections.abc import Sequence

from smg.api.call import Call
from smg.workers.worker import Worker


class Passthrough:
    """The first worker that is available."""

    reads_body = False
    __slots__ = ()

    def choose(self, candidates: Sequence[Worker], call: Call) -> Worker | None:
        return candidates[0]
