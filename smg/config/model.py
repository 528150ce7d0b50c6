"""The configuration as frozen Structs, one per concern: every option with type, default, flags, help, range.

Objects receive their section or single values of it, never the whole `Config`. How the values are
found is in load.py; the section Routing is in routing.py; rules across fields are in rules.py; options of
the list that are not here are in refused.py.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from smg.config.admin import AdminAccess
from smg.config.admission import Admission as Admission
from smg.config.disaggregation import Disaggregation
from smg.config.discovery import Discovery
from smg.config.fields import Option
from smg.config.protection import Protection as Protection
from smg.config.routing import Routing as Routing
from smg.config.specs import ContextHeader, ControlPlaneKey, TenantKey, WorkerUrl
from smg.config.state import State
from smg.config.tracing import Tracing

LISTENING = "Listening"
REQUESTS = "Requests"
CONNECTIONS = "Connections to workers"
WORKERS = "Workers"
HEALTH = "Health checks"
RETRIES = "Retries"
BREAKER = "Circuit breaker"
KEYS = "Authentication"
LOGGING = "Logging"
METRICS = "Metrics"

_PORT_MOST = 65535
# Sizes in bytes: exact in a double and far from the end of 64 bits.
_BYTES_MOST = 2**53

AIOHTTP = "aiohttp"
DATA_PATHS = ("fast", AIOHTTP)
BUILT_BACKENDS = ("sglang", "vllm", "openai")
LOG_LEVELS = ("debug", "info", "warn", "error")


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """The client side: sockets, limits and times of requests.

    `port` is None when only the Unix socket is wanted, which load.py decides.
    """

    host: Annotated[
        str,
        Option(
            group=LISTENING, metavar="ADDRESS", help="Address to listen on; 0.0.0.0 or :: for all interfaces."
        ),
    ] = "0.0.0.0"
    port: Annotated[
        int | None,
        Option(group=LISTENING, help="TCP port to listen on; 0 takes a free one.", most=_PORT_MOST),
    ] = 30000
    uds: Annotated[
        str | None,
        Option(
            group=LISTENING,
            metavar="PATH",
            help="Listen on a Unix socket at this path. TCP is then off unless --port is given as well.",
        ),
    ] = None
    tls_cert_path: Annotated[
        str | None,
        Option(
            group=LISTENING,
            metavar="FILE",
            help="Certificate chain (PEM) of the TCP listener; goes together with --tls-key-path.",
        ),
    ] = None
    tls_key_path: Annotated[
        str | None, Option(group=LISTENING, metavar="FILE", help="Private key (PEM) of --tls-cert-path.")
    ] = None
    health_check_port: Annotated[
        int | None,
        Option(
            group=LISTENING,
            most=_PORT_MOST,
            help="A further port that serves /health, /liveness and /readiness only. Unset: no such port.",
        ),
    ] = None
    cors_allowed_origins: Annotated[
        tuple[str, ...],
        Option(
            group=REQUESTS,
            metavar="ORIGIN",
            help="Origins a browser may call from, such as https://app.example; * alone allows any. "
            "Unset: no CORS headers.",
        ),
    ] = ()
    header_read_timeout_secs: Annotated[
        int,
        Option(group=REQUESTS, least=1, help="Longest time a request's head may take to arrive."),
    ] = 30
    idle_connection_timeout_secs: Annotated[
        int,
        Option(
            group=REQUESTS,
            least=1,
            help="A client connection without a request is closed after this time. Keep it above the idle "
            "timeout of the proxies in front.",
        ),
    ] = 90
    shutdown_grace_period_secs: Annotated[
        int,
        Option(group=LISTENING, help="Longest time that running requests get to finish after SIGTERM."),
    ] = 180
    max_payload_size: Annotated[
        int,
        Option(
            group=REQUESTS,
            least=1,
            most=_BYTES_MOST,
            help="Largest request body in bytes, and largest answer of a worker that is not a stream.",
        ),
    ] = 512 * 1024 * 1024
    max_buffered_request_bytes: Annotated[
        int,
        Option(
            group=REQUESTS,
            most=_BYTES_MOST,
            help="Larger bodies that the gateway need not read go to the worker unparsed, as they arrive, "
            "without retries. 0: every such body.",
        ),
    ] = 1024 * 1024
    stream_body_stall_timeout_secs: Annotated[
        int,
        Option(group=REQUESTS, help="Longest pause between two pieces of a request body. 0: any."),
    ] = 300
    sse_keepalive_secs: Annotated[
        int,
        Option(
            group=REQUESTS,
            help="After this much silence of the worker an event stream gets a comment line, so that proxies "
            "keep it open. 0: never.",
        ),
    ] = 15
    request_id_headers: Annotated[
        tuple[str, ...],
        Option(
            group=REQUESTS,
            metavar="NAME",
            help="Headers searched for a request ID, the first present counts. Unset: x-request-id, "
            "x-correlation-id, x-trace-id, request-id.",
        ),
    ] = ()
    data_path: Annotated[
        str,
        Option(
            group=REQUESTS,
            choices=DATA_PATHS,
            help="How inference requests are carried: fast by the compiled connection, aiohttp through the "
            "aiohttp application. The answers are the same; aiohttp takes more CPU. Use it to find out "
            "whether a fault is the fast path's.",
        ),
    ] = "fast"


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """Connections to workers: reuse, times, certificates."""

    upstream_pool_idle_timeout_secs: Annotated[
        int,
        Option(
            group=CONNECTIONS,
            least=1,
            help="An unused connection to a worker is closed after this time. Keep it below the worker's own "
            "keep-alive timeout (5 s for SGLang and vLLM).",
        ),
    ] = 3
    request_timeout_secs: Annotated[
        int, Option(group=CONNECTIONS, least=1, help="Longest time of a whole request at a worker.")
    ] = 1800
    connect_timeout_secs: Annotated[
        float | None,
        Option(group=CONNECTIONS, above=0, help="Longest time to connect to a worker. Unset: off."),
    ] = None
    first_byte_timeout_secs: Annotated[
        float | None,
        Option(group=CONNECTIONS, above=0, help="Longest wait for a worker's answer to begin. Unset: off."),
    ] = None
    between_bytes_timeout_secs: Annotated[
        float | None,
        Option(
            group=CONNECTIONS,
            above=0,
            help="Longest pause between two pieces of a worker's answer. Unset: off.",
        ),
    ] = None
    client_cert_path: Annotated[
        str | None,
        Option(
            group=CONNECTIONS,
            metavar="FILE",
            help="Client certificate (PEM) shown to https workers; goes together with --client-key-path.",
        ),
    ] = None
    client_key_path: Annotated[
        str | None, Option(group=CONNECTIONS, metavar="FILE", help="Private key (PEM) of --client-cert-path.")
    ] = None
    ca_cert_paths: Annotated[
        tuple[str, ...],
        Option(
            group=CONNECTIONS,
            metavar="FILE",
            help="CA certificates (PEM) that https workers are checked against. Unset: those of the system.",
        ),
    ] = ()


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """The workers known at the start, how they register, and their health checks."""

    worker_urls: Annotated[
        tuple[WorkerUrl, ...],
        Option(
            group=WORKERS,
            metavar="URL",
            parse=WorkerUrl.parse,
            help="Workers to register at the start: http:// or https://, IPv6 in brackets, a path prefix is "
            "kept. More can be added with POST /workers.",
        ),
    ] = ()
    backend: Annotated[
        str,
        Option(
            group=WORKERS,
            choices=BUILT_BACKENDS,
            help="What the workers of --worker-urls are. sglang and vllm are a hint, detection decides; "
            "openai means an external provider.",
        ),
    ] = "sglang"
    worker_startup_timeout_secs: Annotated[
        int,
        Option(group=WORKERS, least=1, help="Longest time a new worker may take until it answers."),
    ] = 1800
    worker_startup_check_interval: Annotated[
        int,
        Option(group=WORKERS, least=1, help="Longest pause, in seconds, between two tries to register it."),
    ] = 30
    worker_startup_delay: Annotated[
        int,
        Option(group=WORKERS, help="Seconds after which a new worker is asked for the first time."),
    ] = 0
    job_queue_capacity: Annotated[
        int,
        Option(
            group=WORKERS,
            least=1,
            help="How many workers may be on their way to be registered; one more gets a 503.",
        ),
    ] = 1000
    job_queue_concurrency: Annotated[
        int,
        Option(group=WORKERS, least=1, most=10_000, help="How many of them are asked at the same time."),
    ] = 200
    health_failure_threshold: Annotated[
        int, Option(group=HEALTH, least=1, help="Failed checks in a row that make a worker not ready.")
    ] = 3
    health_success_threshold: Annotated[
        int, Option(group=HEALTH, least=1, help="Good checks in a row that make it ready again.")
    ] = 2
    health_check_timeout_secs: Annotated[
        int, Option(group=HEALTH, least=1, help="Longest time of one check.")
    ] = 5
    health_check_interval_secs: Annotated[
        int, Option(group=HEALTH, least=1, help="Time between two checks of a worker.")
    ] = 60
    health_check_endpoint: Annotated[
        str, Option(group=HEALTH, metavar="PATH", help="Path asked at the worker.")
    ] = "/health"
    disable_health_check: Annotated[
        bool, Option(group=HEALTH, help="Check workers only when they register.")
    ] = False
    remove_unhealthy_workers: Annotated[
        bool | None,
        Option(
            group=HEALTH,
            spellings=("--worker-auto-recovery",),
            help="Remove a worker that stays failed, so that discovery can register it anew. Unset: on with "
            "service discovery, else off.",
        ),
    ] = None
    dp_aware: Annotated[
        bool,
        Option(
            group=WORKERS,
            help="Route to the data-parallel ranks of an engine one by one: a worker that reports a dp_size "
            "of k becomes k workers, URL@0 to URL@(k-1). Every body is read then.",
        ),
    ] = False
    load_monitor_interval: Annotated[
        int,
        Option(group=WORKERS, least=1, help="Seconds between two questions to a worker for its load."),
    ] = 10
    disable_load_monitoring: Annotated[
        bool,
        Option(
            group=WORKERS, help="Do not ask; requests in flight are all that is known of a worker's load."
        ),
    ] = False


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how fast a request is tried again."""

    retry_max_retries: Annotated[
        int, Option(group=RETRIES, least=1, help="Attempts in all; for a single one use --disable-retries.")
    ] = 5
    retry_initial_backoff_ms: Annotated[
        int, Option(group=RETRIES, least=1, help="Pause before the second attempt.")
    ] = 50
    retry_max_backoff_ms: Annotated[int, Option(group=RETRIES, help="Longest pause between attempts.")] = (
        30_000
    )
    retry_backoff_multiplier: Annotated[
        float, Option(group=RETRIES, least=1, most=1000, help="Growth of the pause from attempt to attempt.")
    ] = 1.5
    retry_jitter_factor: Annotated[
        float, Option(group=RETRIES, least=0, most=1, help="Share by which each pause is varied at random.")
    ] = 0.2
    disable_retries: Annotated[bool, Option(group=RETRIES, help="One attempt per request.")] = False


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """When a failing worker is left alone for a while."""

    cb_failure_threshold: Annotated[
        int, Option(group=BREAKER, least=1, help="Failures in a row that open a worker's breaker.")
    ] = 10
    cb_success_threshold: Annotated[
        int, Option(group=BREAKER, least=1, help="Successes after which a half-open breaker closes.")
    ] = 3
    cb_timeout_duration_secs: Annotated[
        int, Option(group=BREAKER, least=1, help="Time until an open breaker lets one request try.")
    ] = 60
    cb_window_duration_secs: Annotated[
        int, Option(group=BREAKER, least=1, help="Failures older than this are forgotten.")
    ] = 120
    disable_circuit_breaker: Annotated[bool, Option(group=BREAKER, help="Never open a breaker.")] = False


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of clients and administrators. Its `repr` shows none."""

    api_key: Annotated[
        str | None,
        Option(
            group=KEYS,
            metavar="KEY",
            parse=str.strip,
            secret=True,
            help="Key shared by all clients; workers get it too when they are probed. Unset, and no tenant "
            "keys: serving routes are open.",
        ),
    ] = None
    tenant_api_key: Annotated[
        tuple[TenantKey, ...],
        Option(
            group=KEYS,
            metavar="TENANT_ID:KEY",
            parse=TenantKey.parse,
            repeated=True,
            secret=True,
            help="Key of one tenant. Repeatable; a tenant may have several keys, a key has one tenant.",
        ),
    ] = ()
    control_plane_api_keys: Annotated[
        tuple[ControlPlaneKey, ...],
        Option(
            group=KEYS,
            metavar="ID:NAME:ROLE:KEY",
            parse=ControlPlaneKey.parse,
            secret=True,
            help="Keys of the admin routes; ROLE is admin or user, KEY may contain colons. Unset: the shared "
            "key opens them.",
        ),
    ] = ()

    def __repr__(self) -> str:
        return f"Auth({self.tenant_api_key!r}, {self.control_plane_api_keys!r})"


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Logs and metrics."""

    log_level: Annotated[
        str,
        Option(group=LOGGING, choices=LOG_LEVELS, help="Least severity that is logged."),
    ] = "info"
    log_json: Annotated[bool, Option(group=LOGGING, help="One JSON object a line instead of text.")] = False
    log_dir: Annotated[
        str | None,
        Option(
            group=LOGGING,
            metavar="DIR",
            help="Write a file a day as well, smg.YYYY-MM-DD (UTC) in this directory. Old files are yours to "
            "remove.",
        ),
    ] = None
    storage_context_headers: Annotated[
        tuple[ContextHeader, ...],
        Option(
            group=LOGGING,
            metavar="HEADER=KEY",
            parse=ContextHeader.parse,
            help="Headers that make the context of a request: their values, up to 256 characters, stand "
            "under these keys in its log line and its span.",
        ),
    ] = ()
    prometheus_port: Annotated[
        int,
        Option(group=METRICS, most=_PORT_MOST, help="Port of /metrics; 0 takes a free one."),
    ] = 29000
    prometheus_host: Annotated[
        str | None,
        Option(
            group=METRICS,
            metavar="ADDRESS",
            help="Address of the metrics port. Unset: all interfaces of the address family of --host.",
        ),
    ] = None
    prometheus_duration_buckets: Annotated[
        tuple[float, ...],
        Option(
            group=METRICS,
            above=0,
            metavar="SECONDS",
            help="Upper bounds of the duration histograms, ascending. Unset: 29 bounds from 0.001 to 7200.",
        ),
    ] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the composition root needs; `Config()` holds the defaults."""

    listen: Listen = msgspec.field(default_factory=Listen)
    upstream: Upstream = msgspec.field(default_factory=Upstream)
    workers: Workers = msgspec.field(default_factory=Workers)
    routing: Routing = msgspec.field(default_factory=Routing)
    protection: Protection = msgspec.field(default_factory=Protection)
    disaggregation: Disaggregation = msgspec.field(default_factory=Disaggregation)
    admission: Admission = msgspec.field(default_factory=Admission)
    retry: Retry = msgspec.field(default_factory=Retry)
    breaker: Breaker = msgspec.field(default_factory=Breaker)
    auth: Auth = msgspec.field(default_factory=Auth)
    admin: AdminAccess = msgspec.field(default_factory=AdminAccess)
    discovery: Discovery = msgspec.field(default_factory=Discovery)
    state: State = msgspec.field(default_factory=State)
    telemetry: Telemetry = msgspec.field(default_factory=Telemetry)
    tracing: Tracing = msgspec.field(default_factory=Tracing)
