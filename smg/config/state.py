"""The section State: what several gateways share."""

from __future__ import annotations

from typing import Annotated

import msgspec

from smg.config.fields import Option

STATE = "Several gateways"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Its `repr` does not show the URL, which may hold a password."""

    state_redis_url: Annotated[
        str | None,
        Option(
            group=STATE,
            metavar="URL",
            secret=True,
            help="Redis in which several gateways share tenants' budgets and sticky keys: "
            "redis://[user:password@]host[:port][/db], rediss:// for TLS, or unix://path. While it is away, "
            "each gateway goes on by itself.",
        ),
    ] = None

    def __repr__(self) -> str:
        return f"State({'…' if self.state_redis_url else None})"
