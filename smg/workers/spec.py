"""What a client of `/workers` may say about a worker, and how it becomes options of one.

Members the gateway has no use for are ignored, as the API promises; wrong types are not.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from smg.workers.worker import REALTIME_LABEL, Connections, Handover, HealthOptions, ModelCard, Thresholds

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
Settle = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=4_294_967_295)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Cost = Annotated[float, msgspec.Meta(gt=0)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=86_400_000)]
ErrorStatus = Annotated[int, msgspec.Meta(ge=400, le=599)]

WorkerType = Literal["regular", "prefill", "decode", "encode"]
ConnectionMode = Literal["http", "grpc", "zmq"]
Runtime = Literal["unspecified", "sglang", "vllm", "trtllm", "mlx", "tokenspeed", "generic", "external"]

PROVIDER_NAMES = {"grok": "xai", "google": "gemini"}
_PROVIDER_HOSTS = {
    "openai.com": "openai",
    "x.ai": "xai",
    "anthropic.com": "anthropic",
    "googleapis.com": "gemini",
}
_PROVIDER_MODELS = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "grok": "xai",
    "claude": "anthropic",
    "gemini": "gemini",
}


class HealthSpec(msgspec.Struct, frozen=True):
    """Deviations of one worker from the health flags."""

    timeout_secs: Seconds | None = None
    check_interval_secs: Seconds | None = None
    success_threshold: Count | None = None
    failure_threshold: Count | None = None
    disable_health_check: bool | None = None
    drain_settle_secs: Settle | None = None

    def over(self, options: HealthOptions) -> HealthOptions:
        """`options` with the members that were given."""
        given = {
            "timeout_s": self.timeout_secs,
            "interval_s": self.check_interval_secs,
            "success_threshold": self.success_threshold,
            "failure_threshold": self.failure_threshold,
            "disabled": self.disable_health_check,
            "drain_settle_s": self.drain_settle_secs,
        }
        return msgspec.structs.replace(options, **{k: v for k, v in given.items() if v is not None})


class ResilienceSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Deviations of one worker from the retry and breaker flags."""

    max_retries: Count | None = None
    initial_backoff_ms: Milliseconds | None = None
    max_backoff_ms: Milliseconds | None = None
    backoff_multiplier: Annotated[float, msgspec.Meta(ge=1, le=1000)] | None = None
    jitter_factor: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    disable_retry: bool | None = None
    retryable_status_codes: tuple[ErrorStatus, ...] | None = None
    cb_failure_threshold: Count | None = None
    cb_success_threshold: Count | None = None
    cb_timeout_secs: Seconds | None = None
    cb_window_secs: Seconds | None = None
    disable_circuit_breaker: bool | None = None

    @property
    def retries(self) -> dict[str, float]:
        """The members that were given of those that retries have, by the names of their flags."""
        given = {
            "retry_max_retries": self.max_retries,
            "retry_initial_backoff_ms": self.initial_backoff_ms,
            "retry_max_backoff_ms": self.max_backoff_ms,
            "retry_backoff_multiplier": self.backoff_multiplier,
            "retry_jitter_factor": self.jitter_factor,
            "disable_retries": self.disable_retry,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def retryable(self) -> frozenset[int] | None:
        codes = self.retryable_status_codes
        return frozenset(codes) if codes is not None else None


class PoolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Deviations of one worker from the flags of connections to workers."""

    pool_max_idle_per_host: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    pool_idle_timeout_secs: Seconds | None = None
    timeout_secs: Seconds | None = None
    connect_timeout_secs: Seconds | None = None

    @property
    def connections(self) -> Connections:
        return Connections(
            self.pool_max_idle_per_host,
            self.pool_idle_timeout_secs,
            self.timeout_secs,
            self.connect_timeout_secs,
        )


class OverloadSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Thresholds of one worker in place of the flags'."""

    waiting_requests: Count | None = None
    token_usage: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None

    def over(self, general: Thresholds) -> Thresholds:
        """`general` with the members that were given."""
        return Thresholds(
            general.waiting_requests if self.waiting_requests is None else self.waiting_requests,
            general.token_usage if self.token_usage is None else self.token_usage,
        )


class WorkerSpec(msgspec.Struct, frozen=True):
    """Body of `POST /workers` and `PUT /workers/ID`."""

    url: str
    models: tuple[ModelCard, ...] | None = None
    worker_type: WorkerType = "regular"
    connection_mode: ConnectionMode | None = None
    runtime_type: Runtime | None = None
    runtime: Runtime | None = None
    provider: str | None = None
    labels: dict[str, str] | None = None
    priority: Priority | None = None
    cost: Cost | None = None
    api_key: str | None = None
    health: HealthSpec | None = None
    resilience: ResilienceSpec | None = None
    overload: OverloadSpec | None = None
    http_pool: PoolSpec | None = None
    max_connection_attempts: Count | None = None
    load_monitor_interval_secs: Seconds | None = None
    dp_base_url: str | None = None
    dp_rank: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    dp_size: Count | None = None
    bootstrap_port: Port | None = None
    kv_connector: str | None = None
    kv_role: str | None = None
    kv_engine_id: str | None = None
    kv_block_size: Count | None = None

    @property
    def handover(self) -> Handover:
        return Handover(
            self.bootstrap_port, self.kv_connector, self.kv_role, self.kv_engine_id, self.kv_block_size
        )

    @property
    def engine(self) -> str:
        """The runtime named by either spelling, or `unspecified`."""
        return self.runtime_type or self.runtime or "unspecified"

    def problem(self) -> str | None:
        """Why no worker of this kind can be added, if so: what is not built is refused, not ignored."""
        if self.worker_type == "encode":
            return f"worker_type '{self.worker_type}' is not supported by this gateway"
        if self.connection_mode not in (None, "http"):
            return f"connection_mode '{self.connection_mode}' is not supported by this gateway"
        if self.models is not None and any(not card.id for card in self.models):
            return "the id of a model must not be empty"
        return _common_problem(self.api_key, self.labels)


class WorkerUpdate(msgspec.Struct, frozen=True):
    """Body of `PATCH /workers/ID`; labels are merged into those there are."""

    labels: dict[str, str] | None = None
    priority: Priority | None = None
    cost: Cost | None = None
    api_key: str | None = None
    health: HealthSpec | None = None

    def problem(self) -> str | None:
        return _common_problem(self.api_key, self.labels)


def _common_problem(api_key: str | None, labels: dict[str, str] | None) -> str | None:
    if api_key is not None and not is_header_value(api_key):
        return "api_key must be a printable text without blanks around it"
    realtime = labels.get(REALTIME_LABEL, "false") if labels else "false"
    if realtime not in ("true", "false"):
        return f"the label {REALTIME_LABEL} is true or false, not {realtime!r}"
    return None


def is_header_value(key: str) -> bool:
    """Can a key stand in an `Authorization` header as it is?"""
    return key.isprintable() and key == key.strip() != ""


def provider_name(given: str | None, host: str) -> str | None:
    """The provider that was named, else the one a host belongs to."""
    if given:
        return PROVIDER_NAMES.get(given.lower(), given.lower())
    for suffix, provider in _PROVIDER_HOSTS.items():
        if host == suffix or host.endswith("." + suffix):
            return provider
    return None


def provider_of_model(model: str) -> str | None:
    """The provider a model's name begins like."""
    for prefix, provider in _PROVIDER_MODELS.items():
        if model.startswith(prefix):
            return provider
    return None


def external_spec(url: str, provider: str) -> WorkerSpec:
    """A provider named on the command line, reached with its callers' keys."""
    return WorkerSpec(url=url, runtime_type="external", provider=provider)
