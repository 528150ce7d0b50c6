"""The section Routing of the configuration: the policies and their settings."""

from __future__ import annotations

from typing import Annotated

import msgspec

from smg.config.fields import Option
from smg.config.specs import ModelAlias

ROUTING = "Routing"
BY_PREFIX = "Routing by prefix"
BY_LOAD = "Routing by load"
STICKY = "Routing keys"

BUILT_POLICIES = (
    "round_robin",
    "random",
    "passthrough",
    "cache_aware",
    "power_of_two",
    "least_load",
    "manual",
    "consistent_hashing",
    "prefix_hash",
    "least_ttft",
)
CACHE_INDEXES = ("tree", "hash")
LOAD_METRICS = ("expected_wait", "requests", "least_requests")
ASSIGNMENT_MODES = ("random", "min_load", "min_group", "delegate")


class Routing(msgspec.Struct, frozen=True, kw_only=True):
    """Which worker gets a request. `model_alias` holds resolved aliases: chains are followed by load.py."""

    policy: Annotated[
        str,
        Option(
            group=ROUTING,
            choices=BUILT_POLICIES,
            help="How a worker is chosen among those that serve the model. cache_aware, "
            "prefix_hash and least_ttft read the prompt; with the others a large body may go to its worker "
            "as it arrives. power_of_two needs two workers.",
        ),
    ] = "cache_aware"
    enable_igw: Annotated[
        bool,
        Option(
            group=ROUTING,
            help="Expect several models: every body is read for its model. Any number of models is served "
            "without it as well.",
        ),
    ] = False
    model_alias: Annotated[
        tuple[ModelAlias, ...],
        Option(
            group=ROUTING,
            metavar="ALIAS=MODEL",
            parse=ModelAlias.parse,
            repeated=True,
            help="Serve requests for ALIAS as MODEL. Repeatable; an alias of an alias is followed.",
        ),
    ] = ()
    cache_threshold: Annotated[
        float,
        Option(
            group=BY_PREFIX,
            spellings=("--cache-match-threshold",),
            most=1,
            help="cache_aware: share of a prompt that a worker must hold to be preferred for it.",
        ),
    ] = 0.3
    prefix_token_count: Annotated[
        int,
        Option(
            group=BY_PREFIX,
            least=1,
            help="prefix_hash: tokens of a prompt that are hashed, or four times as many characters of a "
            "text.",
        ),
    ] = 256
    prefix_hash_load_factor: Annotated[
        float,
        Option(
            group=BY_PREFIX,
            least=1,
            help="prefix_hash: a worker is left out when it has more requests in flight than the mean "
            "times this, and passes the next bound as well.",
        ),
    ] = 1.25
    prefix_hash_balance_abs_threshold: Annotated[
        int,
        Option(group=BY_PREFIX, help="prefix_hash: requests in flight above the mean."),
    ] = 10
    balance_abs_threshold: Annotated[
        int,
        Option(
            group=BY_PREFIX,
            spellings=("--spill-abs-threshold",),
            help="cache_aware: the worker with the prefix is left out when it has more requests in flight "
            "than the mean plus this, and passes the next bound as well. On a small fleet fewer "
            "count, two standard deviations but at least 4.",
        ),
    ] = 64
    balance_rel_threshold: Annotated[
        float,
        Option(
            group=BY_PREFIX,
            spellings=("--spill-rel-threshold",),
            least=1,
            help="cache_aware: requests in flight as a multiple of the mean.",
        ),
    ] = 1.5
    balance_token_usage_threshold: Annotated[
        float,
        Option(
            group=BY_PREFIX,
            help="cache_aware: prefixes are ignored while the KV cache usages reported by the workers are "
            "further apart than this. 1: never.",
        ),
    ] = 1.0
    overload_token_usage_threshold: Annotated[
        float,
        Option(
            group=BY_PREFIX,
            help="cache_aware: prefixes are ignored while a worker reports a higher KV cache usage than "
            "this. 1: never.",
        ),
    ] = 1.0
    cache_index: Annotated[
        str,
        Option(
            group=BY_PREFIX,
            choices=CACHE_INDEXES,
            help="cache_aware: tree finds prefixes of any length; hash only token prefixes of the lengths "
            "in --cache-boundaries.",
        ),
    ] = "tree"
    cache_boundaries: Annotated[
        tuple[int, ...],
        Option(
            group=BY_PREFIX,
            least=1,
            help="Lengths in tokens: those that --cache-index hash compares, and for prefix_hash the "
            "deepest that a prompt reaches replaces --prefix-token-count.",
        ),
    ] = ()
    cache_ttl_secs: Annotated[
        int,
        Option(group=BY_PREFIX, least=1, help="How long --cache-index hash remembers a prefix."),
    ] = 180
    max_tree_size: Annotated[
        int,
        Option(
            group=BY_PREFIX,
            least=1,
            help="cache_aware and least_ttft: tokens that the index of prefixes keeps, four bytes of text "
            "for one; the least recently used go first.",
        ),
    ] = 64 * 1024 * 1024
    eviction_interval_secs: Annotated[
        int,
        Option(
            group=BY_PREFIX,
            least=1,
            help="Accepted for old scripts: the index is within --max-tree-size at every moment, not only "
            "at intervals.",
        ),
    ] = 60
    block_size: Annotated[
        int,
        Option(
            group=BY_PREFIX,
            least=1,
            help="Accepted for old scripts: prefixes of any length are matched, not only whole blocks.",
        ),
    ] = 16
    power_of_two_load_metric: Annotated[
        str,
        Option(
            group=BY_LOAD,
            choices=LOAD_METRICS,
            help="power_of_two: expected_wait is the score of least_load; requests and least_requests are "
            "the requests in flight.",
        ),
    ] = "expected_wait"
    least_load_kv_pressure_weight: Annotated[
        float,
        Option(
            group=BY_LOAD,
            help="Weight of the KV cache usage in the score of a worker, which is the seconds until it "
            "has worked off its queue plus this times usage / (1 - usage).",
        ),
    ] = 0.15
    least_load_default_throughput: Annotated[
        float,
        Option(group=BY_LOAD, above=0, help="Tokens per second of a worker that reports none."),
    ] = 2000.0
    least_load_mean_prefill_tokens: Annotated[
        int,
        Option(group=BY_LOAD, least=1, help="Tokens of a waiting request whose length is not known."),
    ] = 1024
    least_load_max_waiting_requests: Annotated[
        int,
        Option(
            group=BY_LOAD,
            help="least_load: a worker with this many requests waiting is left out; 503 when none is "
            "left. 0: no limit.",
        ),
    ] = 0
    routing_key_override: Annotated[
        bool,
        Option(
            group=STICKY,
            spellings=("--sticky-sessions",),
            help="Requests with a routing key (a header, or rid in the body) stay at the worker that the "
            "policy picked first. consistent_hashing does so by itself.",
        ),
    ] = False
    routing_key_headers: Annotated[
        tuple[str, ...],
        Option(
            group=STICKY,
            metavar="NAME",
            help="Headers searched for a routing key, the first with a valid value counts. Unset: "
            "x-smg-routing-key.",
        ),
    ] = ()
    assignment_mode: Annotated[
        str | None,
        Option(
            group=STICKY,
            choices=ASSIGNMENT_MODES,
            help="Where manual sends a new key: to any worker, to the one with the fewest requests in "
            "flight, to the one with the fewest keys at work, or (delegate) as with min_load. Unset: "
            "random.",
        ),
    ] = None
    max_idle_secs: Annotated[
        int,
        Option(
            group=STICKY,
            least=1,
            spellings=("--sticky-key-idle-secs",),
            help="A routing key unused for this time is forgotten.",
        ),
    ] = 14_400
