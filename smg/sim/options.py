"""Options of one simulated engine."""

from __future__ import annotations

from typing import Literal

import msgspec

from smg.sim.faults import Fault

Kind = Literal["sglang", "vllm", "generic"]
KINDS: tuple[Kind, ...] = ("sglang", "vllm", "generic")


class Options(msgspec.Struct, frozen=True):
    """Rates are in tokens per second, zero for instantaneous."""

    kind: Kind = "sglang"
    models: tuple[str, ...] = ("simulated-model",)
    api_key: str | None = None
    seed: int = 0
    output_tokens: int = 32
    stream_interval: int = 1
    burst_events: int = 1
    context_tokens: int = 1048576
    cache_tokens: int = 131072
    prefill_tps: float = 0.0
    decode_tps: float = 0.0
    max_running: int = 256
    max_waiting: int = 10000
    max_body_bytes: int = 67108864
    idle_secs: float = 75.0
    embedding_dims: int = 16
    faults: tuple[Fault, ...] = ()
