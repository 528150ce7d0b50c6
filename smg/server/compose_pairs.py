"""Builds what prefill/decode pairs need from the configuration."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator

from smg import errors
from smg.config.disaggregation import BUCKET, DEFAULT_QUEUE_SIZE, DEFAULT_QUEUE_TIMEOUT_S
from smg.config.model import Config
from smg.gateway.pair import Legs, PairRouter
from smg.gateway.route import Router
from smg.gateway.turns import Turns
from smg.policies.bucket import Bucket
from smg.policies.choose import POLICIES, Policy
from smg.policies.manual import Pins
from smg.server import compose_state
from smg.state.link import Link
from smg.workers.overload import Overload
from smg.workers.registry import Registry
from smg.workers.spec import WorkerSpec
from smg.workers.worker import DECODE, PREFILL

MAX_WAITING_TO_DECODE = 4096

Make = Callable[[], Policy]


def specs(config: Config) -> Iterator[WorkerSpec]:
    """The halves that the configuration names."""
    pairs = config.disaggregation
    for half in dict.fromkeys(pairs.prefill):
        yield WorkerSpec(url=str(half.url), worker_type=PREFILL, bootstrap_port=half.bootstrap_port)
    for url in dict.fromkeys(pairs.decode):
        yield WorkerSpec(url=str(url), worker_type=DECODE)


def pair_router(
    config: Config,
    registry: Registry,
    make_policy: Make,
    warm: Callable[[Make], Make],
    pins: Pins | None,
    overload: Overload,
    link: Link | None = None,
) -> PairRouter:
    pairs, routing = config.disaggregation, config.routing
    retry, names = config.retry, routing.routing_key_headers

    def leg(half: str, policy: str | None) -> Router:
        # A conversation is pinned to one worker of each half.
        places = compose_state.places(config, link, half)
        own = Pins(routing.max_idle_secs, time.monotonic, shared=places) if pins is not None else None
        make = warm(compose_state.sharing(_policy(config, policy or routing.policy), places))
        return Router(registry, make, retry, names, own, overload)

    limit = pairs.prefill_max_inflight_requests_per_worker
    legs = Legs(
        leg(PREFILL, pairs.prefill_policy),
        leg(DECODE, pairs.decode_policy),
        limit if limit > 0 else None,
        _prefill_turns(config),
        _decode_turns(config, overload),
    )
    return PairRouter(registry, make_policy, retry, legs, names, pins, overload)


def _policy(config: Config, name: str) -> Make:
    routing = config.routing
    if name == BUCKET:
        adjust_s = config.disaggregation.bucket_adjust_interval_secs
        return lambda: Bucket(
            adjust_s, routing.balance_abs_threshold, routing.balance_rel_threshold, time.monotonic
        )
    return functools.partial(POLICIES[name], routing)


def _prefill_turns(config: Config) -> Turns:
    pairs = config.disaggregation
    size, timeout_s = pairs.prefill_queue_size, pairs.prefill_queue_timeout_secs
    if timeout_s is None:
        timeout_s = DEFAULT_QUEUE_TIMEOUT_S
    return Turns(
        DEFAULT_QUEUE_SIZE if size is None else size,
        timeout_s,
        full=errors.pd_prefill_queue_full,
        late=functools.partial(errors.pd_prefill_queue_timeout, timeout_s),
    )


def _decode_turns(config: Config, overload: Overload) -> Turns:
    def shed() -> errors.GatewayError:
        return errors.worker_overload_protection_shed("", overload.retry_after_s)

    return Turns(MAX_WAITING_TO_DECODE, config.disaggregation.pd_admission_wait_secs, full=shed, late=shed)
