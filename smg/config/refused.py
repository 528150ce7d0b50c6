"""Options that are known and refused at the start, each by its name and with what to do instead.

An option is refused because its feature is not built yet, or because it is not offered at all. The
same holds for its environment variable and its key in the configuration file.
"""

from __future__ import annotations

from dataclasses import dataclass

from smg.config.fields import name_of
from smg.config.model import BUILT_BACKENDS
from smg.config.routing import BUILT_POLICIES


@dataclass(frozen=True, slots=True)
class Refusal:
    """Options refused for one reason. `switches` are those that take no value."""

    topic: str
    reason: str
    flags: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    never: bool = False

    @property
    def all_flags(self) -> tuple[str, ...]:
        return self.flags + self.switches

    def sentence(self, spelling: str) -> str:
        """The problem with an option, called as its user wrote it."""
        return f"{spelling} is {'not offered' if self.never else 'not built yet'}: {self.reason}"


_POLICIES = "use --policy " + ", ".join(BUILT_POLICIES[:-1]) + " or " + BUILT_POLICIES[-1]
_BACKENDS = "use --backend " + ", ".join(BUILT_BACKENDS[:-1]) + " or " + BUILT_BACKENDS[-1]

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "Background jobs",
        "registrations run as tasks of their own, without a queue to size",
        ("--job-queue-capacity", "--job-queue-concurrency"),
    ),
    Refusal(
        "Media preparation",
        "images and audio go to HTTP workers as the client sent them",
        (
            "--multimodal-tensor-transport",
            "--multimodal-shm-min-bytes",
            "--multimodal-max-inflight-bytes",
            "--mm-per-request-image-limit",
            "--mm-processing",
            "--mm-pixel-cache-mb",
            "--mm-allowed-media-domains",
        ),
        ("--mm-allow-private-media-hosts", "--log-mm-timing"),
    ),
    Refusal(
        "RDMA",
        "media travels inside the request; leave the option out",
        ("--rdma-listen-ip", "--rdma-slot-ttl-s"),
        ("--mm-pixel-rdma",),
        never=True,
    ),
    Refusal(
        "HTTP/2 to workers",
        "workers are called over pooled HTTP/1.1 connections; leave the option out",
        (),
        ("--upstream-http2",),
        never=True,
    ),
    Refusal(
        "Cache events of engines",
        "cache_aware learns prefixes from the requests it has placed",
        ("--kv-index", "--overlap-decay"),
    ),
    Refusal(
        "Selection among equal workers",
        "--policy and its settings decide which worker is taken",
        ("--selection-policy", "--selection-accounting-ttl-ms", "--selection-temperature"),
    ),
    Refusal(
        "Eviction at intervals",
        "it is not needed: the indexes are within --max-tree-size at every moment, the least recently used "
        "goes as they fill; leave the option out",
        ("--eviction-interval-secs",),
        never=True,
    ),
    Refusal(
        "Blocks of prompts",
        "it is not needed: prefixes of any length are matched; leave the option out",
        ("--block-size",),
        never=True,
    ),
    Refusal(
        "Overload protection and warm-up of workers",
        "workers shed load themselves, the gateway retries their 429 and 503 elsewhere",
        (
            "--worker-overload-waiting-requests",
            "--worker-overload-token-usage",
            "--worker-stall-secs",
            "--worker-wedge-secs",
            "--worker-stale-secs",
            "--worker-warmup-secs",
            "--worker-warmup-share",
            "--worker-warmup-blocks",
            "--worker-warmup-thin-ratio",
            "--worker-warmup-divert-every",
        ),
        (
            "--worker-overload-protection",
            "--disable-worker-overload-protection",
            "--worker-overload-shed",
        ),
    ),
    Refusal(
        "Data-parallel ranks",
        "a worker with several ranks is registered as one and balances by itself",
        (),
        ("--dp-aware", "--dp-minimum-tokens-scheduler"),
    ),
    Refusal(
        "Prefill/decode disaggregation",
        "give workers that do both with --worker-urls",
        (
            "--encode-policy",
            "--prefill-policy",
            "--decode-policy",
            "--bucket-adjust-interval-secs",
            "--pd-admission-wait-secs",
            "--encode",
            "--prefill",
            "--decode",
            "--prefill-max-inflight-requests-per-worker",
            "--prefill-queue-size",
            "--prefill-queue-timeout-secs",
        ),
        ("--pd-disaggregation", "--epd-disaggregation"),
    ),
    Refusal(
        "Start-up delay",
        "a worker is probed at once and again until --worker-startup-timeout-secs has passed",
        ("--worker-startup-delay",),
    ),
    Refusal(
        "Service discovery",
        "give workers with --worker-urls or add them with POST /workers",
        (
            "--discovery-provider",
            "--selector",
            "--service-discovery-port",
            "--service-discovery-namespace",
            "--kv-connector-annotation",
            "--kv-engine-id-annotation",
            "--encode-selector",
            "--prefill-selector",
            "--decode-selector",
            "--router-selector",
            "--model-id-from",
            "--discovery-file",
            "--discovery-check-interval-secs",
        ),
        ("--service-discovery",),
    ),
    Refusal(
        "Heap profiling",
        "there is no jemalloc in this gateway; use a Python memory profiler",
        ("--jemalloc-prof-dir",),
        never=True,
    ),
    Refusal(
        "Tenant names in headers",
        "tenants are told apart by --tenant-api-key",
        ("--tenant-header-name",),
        ("--trust-tenant-header",),
    ),
    Refusal(
        "Admission limits",
        "limit concurrency at the workers or at the proxy in front",
        (
            "--max-concurrent-requests",
            "--queue-size",
            "--queue-timeout-secs",
            "--rate-limit-tokens-per-second",
        ),
    ),
    Refusal(
        "Tokenizers, templates and parsers",
        "HTTP workers tokenize, render and parse by themselves",
        (
            "--model-path",
            "--model",
            "--tokenizer-path",
            "--chat-template",
            "--parser",
            "--tokenizer-cache-l0-max-entries",
            "--tokenizer-cache-l0-max-memory",
            "--tokenizer-cache-l1-max-memory",
            "--reasoning-parser",
            "--tool-call-parser",
        ),
        (
            "--disable-tokenizer-autoload",
            "--tokenizer-cache-enable-l0",
            "--tokenizer-cache-enable-l1",
        ),
    ),
    Refusal("MCP tools", "tools are run by the client", ("--mcp-config-path",)),
    Refusal("ZMQ workers", "start the engine with its HTTP server", ("--zmq-engine-count",)),
    Refusal(
        "WASM plugins",
        "put a proxy of your own in front of the gateway instead",
        ("--storage-hook-wasm-path",),
        ("--enable-wasm",),
        never=True,
    ),
    Refusal(
        "Stored responses",
        "the gateway stores no responses or conversations, HTTP workers may",
        (
            "--storage-context-headers",
            "--max-background-responses",
            "--history-backend",
            "--history-memory-max-responses",
            "--history-memory-max-items",
            "--history-memory-retention-secs",
            "--schema-config",
            "--postgres-db-url",
            "--postgres-pool-max",
            "--postgres-op-timeout-secs",
            "--redis-url",
            "--redis-pool-max",
            "--redis-retention-days",
            "--redis-op-timeout-secs",
        ),
    ),
    Refusal(
        "Oracle",
        "stored responses are planned for memory, PostgreSQL and Redis only",
        (
            "--oracle-wallet-path",
            "--oracle-tns-alias",
            "--oracle-connect-descriptor",
            "--oracle-username",
            "--oracle-password",
            "--oracle-pool-min",
            "--oracle-pool-max",
            "--oracle-pool-timeout-secs",
        ),
        ("--oracle-external-auth",),
        never=True,
    ),
    Refusal(
        "Tracing",
        "traceparent and tracestate pass through to the workers as the client sent them",
        ("--otlp-traces-endpoint",),
        ("--enable-trace",),
    ),
    Refusal(
        "Audit log and JWT for admin routes",
        "protect them with --control-plane-api-keys",
        ("--jwt-issuer", "--jwt-audience", "--jwt-jwks-uri", "--jwt-role-mapping"),
        ("--control-plane-audit-enabled",),
    ),
    Refusal(
        "RL control",
        "call the workers' own control routes",
        ("--rl-control-timeout-secs", "--rl-fanout-concurrency"),
        ("--enable-rl",),
    ),
    Refusal(
        "Priority scheduler",
        "every request has the same priority",
        (
            "--priority-scheduler-default-max-class",
            "--priority-scheduler-config",
            "--priority-scheduler-tenant-metric-top-n",
        ),
        ("--priority-scheduler-enabled",),
    ),
    Refusal(
        "Tenant rate limits",
        "limit tenants at the proxy in front",
        ("--tenant-rate-limit-config",),
        ("--tenant-rate-limit-enabled",),
    ),
    Refusal(
        "Shared state of several gateways",
        "each gateway keeps its own state, so give each its own clients",
        ("--state-redis-url",),
    ),
    Refusal(
        "Mesh",
        "several gateways share state through Redis (--state-redis-url, not built yet)",
        (
            "--mesh-server-name",
            "--mesh-host",
            "--mesh-advertise-host",
            "--mesh-port",
            "--mesh-peer-urls",
            "--mesh-tls-ca-cert",
            "--mesh-tls-cert",
            "--mesh-tls-key",
        ),
        ("--enable-mesh",),
        never=True,
    ),
)

# Values of built options that are known but refused: field name → value → reason.
REFUSED_VALUES: dict[str, dict[str, str]] = {
    "policy": {
        "bucket": f"is a policy for prefill workers, never the main one: {_POLICIES}",
    },
    "backend": dict.fromkeys(("anthropic", "tokenspeed"), f"is not built yet: {_BACKENDS}"),
}


def refusals_by_name() -> dict[str, tuple[str, Refusal, bool]]:
    """Name in the configuration file → flag, its refusal, and whether the option is a switch."""
    return {
        name_of(flag): (flag, refusal, flag in refusal.switches)
        for refusal in REFUSALS
        for flag in refusal.all_flags
    }
