"""How many requests may be at work at once, who goes first, and what each tenant may use."""

from __future__ import annotations

from typing import Annotated

import msgspec

from smg.config.fields import Option

LIMITING = "Rate limiting"
SCHEDULER = "Priority scheduler"
TENANTS = "Tenant rate limits"

CLASSES = ("system", "interactive", "default", "bulk")
"""The classes of the priority scheduler, the highest first."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The concurrency limit and its queue; the priority scheduler in its place; tenants' budgets."""

    max_concurrent_requests: Annotated[
        int,
        Option(
            group=LIMITING,
            least=-1,
            help="At most this many requests at work at once; the others wait. -1: 1024 for each core, at "
            "least 4096. 0: no limit.",
        ),
    ] = -1
    queue_size: Annotated[
        int,
        Option(group=LIMITING, help="How many requests may wait; one more gets a 429. 0: none may."),
    ] = 100
    queue_timeout_secs: Annotated[
        int,
        Option(group=LIMITING, least=1, help="Longest time a request may wait; then it gets a 503."),
    ] = 60
    rate_limit_tokens_per_second: Annotated[
        int | None,
        Option(
            group=LIMITING,
            help="Requests a second; bursts may be as large as --max-concurrent-requests. Unset or 0: no "
            "such limit.",
        ),
    ] = None
    trust_tenant_header: Annotated[
        bool,
        Option(
            group=TENANTS,
            help="Callers without an API key may name their tenant in a header. For a gateway that only "
            "trusted services reach.",
        ),
    ] = False
    tenant_header_name: Annotated[
        str,
        Option(group=TENANTS, metavar="NAME", help="The header of --trust-tenant-header."),
    ] = "x-smg-tenant-id"
    priority_scheduler_enabled: Annotated[
        bool,
        Option(
            group=SCHEDULER,
            help="Admit requests by the class in X-SMG-Priority, up to what the workers can run at once, "
            "instead of by --max-concurrent-requests.",
        ),
    ] = False
    priority_scheduler_default_max_class: Annotated[
        str,
        Option(
            group=SCHEDULER, choices=CLASSES, help="The highest class of tenants that the file does not name."
        ),
    ] = "default"
    priority_scheduler_config: Annotated[
        str | None,
        Option(
            group=SCHEDULER,
            metavar="FILE",
            help="YAML file with the classes' numbers and the tenants' highest classes. Unset: defaults.",
        ),
    ] = None
    priority_scheduler_tenant_metric_top_n: Annotated[
        int,
        Option(
            group=SCHEDULER,
            most=10_000,
            help="How many tenants get a label of their own in smg_scheduler_clamp_total.",
        ),
    ] = 32
    tenant_rate_limit_enabled: Annotated[
        bool,
        Option(group=TENANTS, help="Limit the tokens and requests a minute of each tenant."),
    ] = False
    tenant_rate_limit_config: Annotated[
        str | None,
        Option(
            group=TENANTS,
            metavar="FILE",
            help="YAML file of the tenants' limits; --tenant-rate-limit-enabled needs it.",
        ),
    ] = None

    @property
    def tells_tenants_apart(self) -> bool:
        """Does anything depend on who calls, beyond the key?"""
        return self.priority_scheduler_enabled or self.tenant_rate_limit_enabled
