"""Builds what several gateways share: the link to their Redis, and what goes over it."""

from __future__ import annotations

import functools
from collections.abc import Callable

from smg.admission.budgets import Budgets, LocalBudgets
from smg.config.model import Config
from smg.policies.choose import Policy
from smg.policies.manual import Manual
from smg.state.budgets import SharedBudgets
from smg.state.link import Link, shown
from smg.state.places import SharedPlaces
from smg.telemetry.metrics import Metrics


def link(config: Config, metrics: Metrics) -> Link | None:
    url = config.state.state_redis_url
    if url is None:
        return None
    # The library takes 6 MB.
    from smg.state.client import RedisConnection

    made = Link(functools.partial(RedisConnection, url), shown(url))
    metrics.plug("smg_state_up", lambda: [((), int(made.is_up))])
    metrics.plug(
        "smg_state_questions_total",
        lambda: [(("answered",), made.answered), (("failed",), made.failed), (("dropped",), made.dropped)],
    )
    return made


def budgets(link: Link | None) -> Budgets:
    local = LocalBudgets()
    return local if link is None else SharedBudgets(link, local)


def places(config: Config, link: Link | None, half: str = "") -> SharedPlaces | None:
    """Where sticky keys have their worker, or that of one half of a pair, if anything asks for it."""
    routing, pairs = config.routing, config.disaggregation
    is_used = "manual" in (routing.policy, pairs.prefill_policy, pairs.decode_policy)
    if link is None or not (is_used or routing.routing_key_override):
        return None
    return SharedPlaces(link, routing.max_idle_secs, half)


def sharing(make: Callable[[], Policy], places: SharedPlaces | None) -> Callable[[], Policy]:
    """Makes the same policies, with keys that other gateways know."""
    if places is None:
        return make

    def made() -> Policy:
        policy = make()
        if isinstance(policy, Manual):
            policy.share(places)
        return policy

    return made
