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
        "Silence of engines that push their load",
        "engines are asked for their load every --load-monitor-interval seconds",
        ("--worker-stale-secs",),
    ),
    Refusal(
        "Data-parallel ranks by tokens",
        "use --dp-aware with --policy least_load, which counts the tokens that each rank reports as waiting",
        (),
        ("--dp-minimum-tokens-scheduler",),
    ),
    Refusal(
        "Workers that only encode media",
        "use --pd-disaggregation with prefill workers that encode what they are sent",
        ("--encode-policy", "--encode"),
        ("--epd-disaggregation",),
    ),
    Refusal(
        "Discovery of other gateways",
        "gateways do not talk to each other, they share state through Redis; leave the option out",
        ("--router-selector",),
        never=True,
    ),
    Refusal(
        "Heap profiling",
        "there is no jemalloc in this gateway; use a Python memory profiler",
        ("--jemalloc-prof-dir",),
        never=True,
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
        "RL control",
        "call the workers' own control routes",
        ("--rl-control-timeout-secs", "--rl-fanout-concurrency"),
        ("--enable-rl",),
    ),
    Refusal(
        "Mesh",
        "several gateways share state through Redis (--state-redis-url)",
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
        "bucket": f"is a policy for --prefill-policy only, never the main one: {_POLICIES}",
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
