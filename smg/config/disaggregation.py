"""The section Disaggregation of the configuration: pairs of a prefill and a decode worker."""

from __future__ import annotations

from typing import Annotated

import msgspec

from smg.config.fields import MOST, Option
from smg.config.routing import BUILT_POLICIES
from smg.config.specs import PrefillUrl, WorkerUrl

PAIRS = "Prefill/decode pairs"

BUCKET = "bucket"
DEFAULT_QUEUE_SIZE = 100
DEFAULT_QUEUE_TIMEOUT_S = 60


class Disaggregation(msgspec.Struct, frozen=True, kw_only=True):
    """Which workers are halves of pairs, how each half is chosen, and what a request may wait for."""

    pd_disaggregation: Annotated[
        bool,
        Option(
            group=PAIRS,
            help="Serve models by pairs: one worker prefills the prompt, another decodes from its KV cache. "
            "Models of whole workers are served as without it.",
        ),
    ] = False
    prefill: Annotated[
        tuple[PrefillUrl, ...],
        Option(
            group=PAIRS,
            metavar="URL [PORT]",
            parse=PrefillUrl.parse,
            begins_entry=PrefillUrl.begins,
            repeated=True,
            at_least_one=True,
            help="A prefill worker, and for SGLang its bootstrap port; none or nothing: it has no such port. "
            "Repeatable. More can be added with POST /workers.",
        ),
    ] = ()
    decode: Annotated[
        tuple[WorkerUrl, ...],
        Option(
            group=PAIRS,
            metavar="URL",
            parse=WorkerUrl.parse,
            repeated=True,
            help="A decode worker. Repeatable.",
        ),
    ] = ()
    prefill_policy: Annotated[
        str | None,
        Option(
            group=PAIRS,
            choices=(*BUILT_POLICIES, BUCKET),
            help="How prefill workers are chosen; bucket gives each a range of prompt lengths. Unset: as "
            "--policy says.",
        ),
    ] = None
    decode_policy: Annotated[
        str | None,
        Option(
            group=PAIRS,
            choices=BUILT_POLICIES,
            help="How decode workers are chosen. Unset: as --policy says.",
        ),
    ] = None
    bucket_adjust_interval_secs: Annotated[
        int,
        Option(
            group=PAIRS,
            least=1,
            help="bucket: time between two adjustments of the ranges, so that each worker gets as much text.",
        ),
    ] = 5
    prefill_max_inflight_requests_per_worker: Annotated[
        int,
        Option(
            group=PAIRS,
            least=-MOST,
            help="Requests in flight that a prefill worker may have; those above wait. 0 or less: any.",
        ),
    ] = -1
    prefill_queue_size: Annotated[
        int | None,
        Option(
            group=PAIRS,
            help="Requests that may wait for a prefill worker; 429 for those above. 0: none. Unset: "
            f"{DEFAULT_QUEUE_SIZE}.",
        ),
    ] = None
    prefill_queue_timeout_secs: Annotated[
        int | None,
        Option(
            group=PAIRS,
            least=1,
            help=f"Longest time a request may wait for a prefill worker. Unset: {DEFAULT_QUEUE_TIMEOUT_S}.",
        ),
    ] = None
    pd_admission_wait_secs: Annotated[
        int,
        Option(
            group=PAIRS,
            help="Longest wait for room in a decode engine's running window, then 503. Engines that report "
            "no window are never waited for. 0: no wait.",
        ),
    ] = 30
