"""What every routing policy implements, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from smg.api.call import Call
from smg.policies.passthrough import Passthrough
from smg.policies.random_choice import RandomChoice
from smg.policies.round_robin import RoundRobin
from smg.workers.worker import Worker


class Policy(Protocol):
    """Picks one of the candidates; never given none. `reads_body`: the choice needs the request's text."""

    reads_body: bool

    def choose(self, candidates: Sequence[Worker], call: Call) -> Worker | None: ...


POLICIES: dict[str, Callable[[], Policy]] = {
    "round_robin": RoundRobin,
    "random": RandomChoice,
    "passthrough": Passthrough,
}
