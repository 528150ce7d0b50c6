"""One registered engine or external provider: what is known about it and its present state.

Plain attributes on purpose: routing reads `load`, `status` and `breaker` for every request.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, Protocol

import msgspec

from smg.config.specs import WorkerUrl
from smg.workers.breaker import Breaker

EXTERNAL = "external"
SGLANG = "sglang"
REGULAR: Final = "regular"
PREFILL: Final = "prefill"
DECODE: Final = "decode"
REALTIME_LABEL: Final = "realtime"
_NOT_REALTIME = ("anthropic", "gemini")
_CONNECTORS = {"NixlConnector": "nixl", "MooncakeConnector": "mooncake"}


class Status(enum.Enum):
    """Only `READY` workers are routed to; all but `DRAINING` are probed."""

    PENDING = "pending"
    READY = "ready"
    NOT_READY = "not_ready"
    FAILED = "failed"
    DRAINING = "draining"


class Backend(Protocol):
    """The protocol one worker speaks; made by the composition root."""

    async def forward(self, x: Any, call: Any, lease: Any) -> bool: ...

    def tune(self) -> None:
        """The worker's `connections` may have changed."""

    def close(self) -> None: ...


class Contact(Protocol):
    """Who is told that a request could not reach a worker."""

    def failed(self, worker: Worker, now: float) -> None: ...


class ModelCard(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model a worker serves, as shown and accepted by `/workers`."""

    id: str
    aliases: tuple[str, ...] = ()
    model_type: msgspec.Raw | None = None
    context_length: int | None = None
    provider: str | None = None


class HealthOptions(msgspec.Struct, frozen=True):
    """How one worker is probed and drained; seconds."""

    endpoint: str = "/health"
    timeout_s: float = 5.0
    interval_s: float = 60.0
    success_threshold: int = 2
    failure_threshold: int = 3
    disabled: bool = False
    drain_settle_s: float = 5.0


class LoadReport(msgspec.Struct, frozen=True):
    """What an engine says of its load at `at` (monotonic seconds). `waiting_tokens`: prompt tokens in its
    queue that it holds no cache of, None when it does not say; `token_usage`: share of the KV cache in use;
    `throughput` in generated tokens a second, 0 when unknown."""

    at: float
    running_requests: int = 0
    waiting_requests: int = 0
    waiting_tokens: float | None = None
    token_usage: float = 0.0
    throughput: float = 0.0


class Thresholds(msgspec.Struct, frozen=True):
    """A worker that reports so much or more is overloaded; None: it is not asked."""

    waiting_requests: int | None = None
    token_usage: float | None = None


class Connections(msgspec.Struct, frozen=True):
    """What a worker has of its own of the options of connections to workers; None: nothing. Seconds;
    `max_idle` connections are kept unused, and each for `idle_s`; `request_s`: a whole request."""

    max_idle: int | None = None
    idle_s: float | None = None
    request_s: float | None = None
    connect_s: float | None = None


class Rank(msgspec.Struct, frozen=True):
    """One of the `size` data-parallel ranks behind one address, from 0."""

    number: int
    size: int


class Handover(msgspec.Struct, frozen=True):
    """How a prefill or decode worker passes its KV cache on; None: not said."""

    bootstrap_port: int | None = None
    kv_connector: str | None = None
    kv_role: str | None = None
    kv_engine_id: str | None = None
    kv_block_size: int | None = None


class Worker:
    """`url` is what it is called: the canonical text of its address, without a trailing slash, and of a
    data-parallel rank `@` and its number too. `base_url` is where it is asked."""

    __slots__ = (
        "aliases",
        "api_key",
        "backend",
        "base_url",
        "breaker",
        "cards",
        "connection_mode",
        "connections",
        "contact",
        "cost",
        "done_at",
        "handover",
        "health",
        "heard_at",
        "id",
        "labels",
        "load",
        "load_interval_s",
        "load_rows",
        "model_id",
        "models",
        "priority",
        "provider",
        "rank",
        "report",
        "report_number",
        "retries",
        "retryable",
        "runtime",
        "sent_since_report",
        "status",
        "target",
        "thresholds",
        "url",
        "worker_type",
    )

    def __init__(
        self,
        target: WorkerUrl,
        breaker: Breaker,
        health: HealthOptions | None = None,
        cards: Iterable[ModelCard] = (),
        runtime: str = "unspecified",
        api_key: str | None = None,
        provider: str | None = None,
        labels: dict[str, str] | None = None,
        priority: int = 50,
        cost: float = 1.0,
    ) -> None:
        self.id = str(uuid.uuid4())
        self.target = target
        self.base_url = self.url = str(target)
        self.rank: Rank | None = None
        self.breaker = breaker
        self.health = health or HealthOptions()
        self.runtime = runtime
        self.api_key = api_key
        self.provider = provider
        self.labels = dict(labels or {})
        self.priority = priority
        self.cost = cost
        self.worker_type = REGULAR
        self.handover = Handover()
        self.connection_mode = "http"
        self.status = Status.PENDING
        self.contact: Contact | None = None
        # When it answered last, anything and a client's request, by the monotonic clock.
        self.heard_at = self.done_at = 0.0
        self.load = 0
        self.load_interval_s: float | None = None
        self.load_rows: Sequence[dict[str, float]] = ()
        self.thresholds = Thresholds()
        # What it has of its own in place of the options of retries, by their names.
        self.retries: Mapping[str, float] = {}
        # The statuses it answers that are tried again, in place of the usual ones.
        self.retryable: Set[int] | None = None
        self.connections = Connections()
        self.report: LoadReport | None = None
        self.report_number = 0
        self.sent_since_report = 0
        self.backend: Backend | None = None
        self.set_cards(cards)

    @property
    def is_external(self) -> bool:
        """A provider on the Internet: not probed, not listed, reached with the caller's key."""
        return self.runtime == EXTERNAL

    @property
    def takes_any_model(self) -> bool:
        """A provider whose models are unknown: it is asked for every model nobody else serves."""
        return self.runtime == EXTERNAL and not self.models

    @property
    def connector(self) -> str | None:
        """The name of what hands its KV cache over; None: not said, or SGLang, which has its own way."""
        connector = self.handover.kv_connector
        if connector is None or self.runtime == SGLANG:
            return None
        return _CONNECTORS.get(connector, connector.lower())

    @property
    def pairing(self) -> str:
        """What it can be paired with, as it is shown."""
        return f"{self.runtime}/{self.connector or '?'}/?"

    def pairs_with(self, other: Worker) -> bool:
        """Can a prefill and a decode worker work together? What one does not say is no hindrance."""
        return self.fits({(other.runtime, other.connector)})

    def fits(self, others: Set[tuple[str, str | None]]) -> bool:
        """Can it work with one of these, each a runtime and a connector?"""
        if self.connector is None:
            return any(runtime == self.runtime for runtime, _ in others)
        return (self.runtime, self.connector) in others or (self.runtime, None) in others

    @property
    def speaks_realtime(self) -> bool:
        """Is it labelled for the Realtime API, or a provider that has it?"""
        if self.runtime == EXTERNAL:
            return self.provider not in _NOT_REALTIME
        is_plain = self.worker_type == "regular" and self.connection_mode == "http"
        return is_plain and self.labels.get(REALTIME_LABEL) == "true"

    def reported(self, report: LoadReport | None, rows: Sequence[dict[str, float]] = ()) -> None:
        """A report came, or the last one is too old to count. `rows`: what it was made of, by rank."""
        self.report = report
        self.load_rows = rows
        self.report_number += 1
        self.sent_since_report = 0

    def set_cards(self, cards: Iterable[ModelCard]) -> None:
        """Replace the models served; the registry must be refreshed afterwards."""
        self.cards = tuple(cards)
        self.models = tuple(card.id for card in self.cards)
        self.model_id = self.models[0] if self.models else ""
        self.aliases = {alias: card.id for card in self.cards for alias in card.aliases}
