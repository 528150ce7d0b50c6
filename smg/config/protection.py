"""The section Protection of the configuration: which workers get fewer requests, or none for a while."""

from __future__ import annotations

from typing import Annotated

import msgspec

from smg.config.fields import Option

OVERLOAD = "Overload protection"
WARMUP = "Warm-up of workers"


class Protection(msgspec.Struct, frozen=True, kw_only=True):
    """When a worker counts as overloaded, by what it reports of itself, and how a new one gets its share."""

    worker_overload_waiting_requests: Annotated[
        int,
        Option(
            group=OVERLOAD,
            least=1,
            help="A worker that reports this many waiting requests, of all its ranks together, gets no more "
            "while another one that serves the model reports fewer.",
        ),
    ] = 8
    worker_overload_token_usage: Annotated[
        float,
        Option(
            group=OVERLOAD,
            above=0,
            most=1,
            help="The same for the share of its KV cache in use, the mean of its ranks.",
        ),
    ] = 0.8
    worker_overload_protection: Annotated[
        bool,
        Option(group=OVERLOAD, help="Protect workers from overload: the default, accepted for old scripts."),
    ] = False
    disable_worker_overload_protection: Annotated[
        bool,
        Option(
            group=OVERLOAD,
            help="Use neither threshold, except those given for single workers with POST /workers.",
        ),
    ] = False
    worker_overload_shed: Annotated[
        bool,
        Option(
            group=OVERLOAD,
            help="Refuse a request with 503 while all workers of its model are overloaded. Unset: it goes to "
            "the one that is the least.",
        ),
    ] = False

    worker_stall_secs: Annotated[
        int,
        Option(
            group=OVERLOAD,
            help="A worker that a request could not reach, and of which nothing was heard for so long "
            "before, gets no more while there is another one, until it answers a probe. 0: the circuit "
            "breaker alone decides.",
        ),
    ] = 2
    worker_wedge_secs: Annotated[
        int,
        Option(
            group=OVERLOAD,
            help="A worker that has had four requests or ever more for so long, and not a byte or an answer "
            "has come of any, gets no more while there is another one, until something comes. A worker that "
            "proved slow is granted more, up to 120 s. 0: never.",
        ),
    ] = 3
    worker_warmup_secs: Annotated[
        int,
        Option(
            group=WARMUP,
            help="A worker that joins, or comes back to, a fleet older than this gets its share of the "
            "requests little by little for so long. 0: at once.",
        ),
    ] = 60
    worker_warmup_share: Annotated[
        float,
        Option(group=WARMUP, most=1, help="The part of an equal share that it begins with."),
    ] = 0.25
    worker_warmup_blocks: Annotated[
        int,
        Option(
            group=WARMUP,
            help="cache_aware: it is warm as soon as it was sent this many blocks of prompts, 16 tokens or "
            "64 bytes of text each.",
        ),
    ] = 1024
    worker_warmup_thin_ratio: Annotated[
        float,
        Option(
            group=WARMUP,
            most=1,
            help="cache_aware: a worker that was sent less than this share of what the median worker was "
            "sent is filled up like a new one. 0: only new ones are.",
        ),
    ] = 0.5
    worker_warmup_divert_every: Annotated[
        int,
        Option(
            group=WARMUP,
            help="cache_aware: one in so many prompts that a worker holds goes to a new one all the same, "
            "one at a time, so that its cache fills. 0: none.",
        ),
    ] = 8

    @property
    def waiting_requests(self) -> int | None:
        return None if self.disable_worker_overload_protection else self.worker_overload_waiting_requests

    @property
    def token_usage(self) -> float | None:
        return None if self.disable_worker_overload_protection else self.worker_overload_token_usage
