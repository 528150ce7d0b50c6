"""What every routing policy implements, and the table that makes them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from smg.config.model import Routing
from smg.policies.ask import Ask
from smg.policies.cache_aware import CacheAware, Index, Spill
from smg.policies.caches import Caches
from smg.policies.consistent_hashing import ConsistentHashing
from smg.policies.least_load import LeastLoad
from smg.policies.least_ttft import LeastTtft
from smg.policies.load import ExpectedWait, Score, in_flight
from smg.policies.manual import Manual, Pins
from smg.policies.passthrough import Passthrough
from smg.policies.placement import PlacementIndex
from smg.policies.power_of_two import PowerOfTwo
from smg.policies.prefix_hash import PrefixHash
from smg.policies.prefix_index import PrefixIndex
from smg.policies.random_choice import RandomChoice
from smg.policies.round_robin import RoundRobin
from smg.workers.worker import Worker


class Policy(Protocol):
    """Picks one of the candidates; never given none. `reads_body`: the choice needs the request's text.

    A policy that keeps something of its workers also has `forget(worker)`.
    """

    reads_body: bool

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None: ...


def _score(options: Routing) -> ExpectedWait:
    return ExpectedWait(
        options.least_load_kv_pressure_weight,
        options.least_load_default_throughput,
        options.least_load_mean_prefill_tokens,
    )


def _power_of_two(options: Routing) -> Policy:
    score: Score = _score(options) if options.power_of_two_load_metric == "expected_wait" else in_flight
    return PowerOfTwo(score, random.Random())  # noqa: S311


def _index(options: Routing) -> Index:
    if options.cache_index == "hash":
        return PlacementIndex(options.cache_boundaries, options.cache_ttl_secs, time.monotonic)
    return PrefixIndex(options.max_tree_size)


def _cache_aware(options: Routing) -> Policy:
    spill = Spill(
        options.balance_abs_threshold,
        options.balance_rel_threshold,
        options.balance_token_usage_threshold,
        options.overload_token_usage_threshold,
    )
    return CacheAware(_index(options), options.cache_threshold, spill, random.Random())  # noqa: S311


def _prefix_hash(options: Routing) -> Policy:
    return PrefixHash(
        options.prefix_token_count,
        options.cache_boundaries,
        options.prefix_hash_load_factor,
        options.prefix_hash_balance_abs_threshold,
        random.Random(),  # noqa: S311
    )


def _manual(options: Routing) -> Policy:
    pins = Pins(options.max_idle_secs, time.monotonic)
    return Manual(options.assignment_mode or "random", pins, random.Random())  # noqa: S311


POLICIES: dict[str, Callable[[Routing], Policy]] = {
    "round_robin": lambda options: RoundRobin(),
    "random": lambda options: RandomChoice(),
    "passthrough": lambda options: Passthrough(),
    "cache_aware": _cache_aware,
    "power_of_two": _power_of_two,
    "least_load": lambda options: LeastLoad(
        _score(options),
        options.least_load_max_waiting_requests,
        random.Random(),  # noqa: S311
    ),
    "manual": _manual,
    "consistent_hashing": lambda options: ConsistentHashing(random.Random()),  # noqa: S311
    "prefix_hash": _prefix_hash,
    "least_ttft": lambda options: LeastTtft(Caches(options.max_tree_size), random.Random()),  # noqa: S311
}
