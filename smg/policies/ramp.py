"""Slow start over the policies that know nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smg.config.protection import Protection
from smg.policies.ask import Ask
from smg.policies.cache_aware import CacheAware
from smg.policies.choose import Policy
from smg.policies.divert import Divert
from smg.policies.least_load import LeastLoad
from smg.policies.power_of_two import PowerOfTwo
from smg.policies.random_choice import RandomChoice
from smg.policies.round_robin import RoundRobin
from smg.workers.warmup import Warmup
from smg.workers.worker import Worker

# The others place by key: what belongs to a cold worker would go elsewhere, and come back later.
_RAMPED = (RoundRobin, RandomChoice, PowerOfTwo, LeastLoad)


class Ramp:
    """The policy is not shown a cold worker more often than it shall have a request."""

    reads_body = False
    __slots__ = ("_warmup", "within")

    def __init__(self, policy: Policy, warmup: Warmup) -> None:
        self.within = policy
        self._warmup = warmup

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        if self._warmup.cold:
            candidates = self._warmup.admit(candidates)
        return self.within.choose(candidates, ask)


def warming(make: Callable[[], Policy], warmup: Warmup, options: Protection) -> Callable[[], Policy]:
    """Makes the same policies, with a slow start where it does good."""
    if options.worker_warmup_secs == 0:
        return make

    def made() -> Policy:
        policy = make()
        if isinstance(policy, CacheAware):
            policy.divert = Divert(
                warmup,
                options.worker_warmup_divert_every,
                options.worker_warmup_thin_ratio,
                options.worker_warmup_blocks,
            )
            return policy
        return Ramp(policy, warmup) if isinstance(policy, _RAMPED) else policy

    return made
