"""What the simulated engine says about itself: health, models, metadata and load."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from smg.sim.options import Options
from smg.sim.reply import JSON, TEXT

SGLANG_VERSION = "0.5.21"
VLLM_VERSION = "0.11.0"
STARTED_AT = 1700000000  # `created` of the models; fixed, so that answers stay the same
PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"


class Load(msgspec.Struct):
    """What an engine is busy with at this moment, and its counters since the start."""

    running: int
    waiting: int
    used_tokens: int
    token_usage: float
    generated_tokens: int
    prompt_tokens: int
    queried_tokens: int
    hit_tokens: int
    tokens_per_second: float
    finished: int


# One answer: content type and body. The load is only computed when asked for.
Probe = Callable[[Options, Callable[[], Load]], tuple[bytes, bytes]]


def _json(value: object) -> tuple[bytes, bytes]:
    return JSON, msgspec.json.encode(value)


def _empty(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    return TEXT, b""


def _models(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    owner = "simulated" if options.kind == "generic" else options.kind
    data = [
        {
            "id": model,
            "object": "model",
            "created": STARTED_AT,
            "owned_by": owner,
            "root": options.models[0],
            "parent": None,
            "max_model_len": options.context_tokens,
        }
        for model in options.models
    ]
    return _json({"object": "list", "data": data})


def _version(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    return _json({"version": VLLM_VERSION})


def _server_info(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    return _json(
        {
            "model_path": options.models[0],
            "tokenizer_path": options.models[0],
            "served_model_name": options.models[0],
            "tp_size": 1,
            "dp_size": 1,
            "pp_size": 1,
            "is_embedding": False,
            "context_length": options.context_tokens,
            "max_total_num_tokens": options.cache_tokens,
            "max_total_tokens": options.cache_tokens,
            "max_running_requests": options.max_running,
            "weight_version": "simulated",
            "version": SGLANG_VERSION,
        }
    )


def _model_info(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    return _json(
        {
            "model_path": options.models[0],
            "tokenizer_path": options.models[0],
            "is_generation": True,
            "weight_version": "simulated",
            "model_type": "simulated",
            "architectures": ["SimulatedForCausalLM"],
        }
    )


def _get_load(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    now = load()
    return _json(
        [
            {
                "dp_rank": 0,
                "num_reqs": now.running + now.waiting,
                "num_waiting_reqs": now.waiting,
                "num_tokens": now.used_tokens,
            }
        ]
    )


def _v1_loads(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    now = load()
    rank: dict[str, Any] = {
        "dp_rank": 0,
        "num_running_reqs": now.running,
        "num_waiting_reqs": now.waiting,
        "num_total_reqs": now.running + now.waiting,
        "num_used_tokens": now.used_tokens,
        "max_total_num_tokens": options.cache_tokens,
        "token_usage": now.token_usage,
        "gen_throughput": now.tokens_per_second,
        "cache_hit_rate": now.hit_tokens / now.queried_tokens if now.queried_tokens else 0.0,
        "utilization": now.running / options.max_running,
        "max_running_requests": options.max_running,
    }
    stamp = datetime.now(UTC).isoformat()
    return _json({"timestamp": stamp, "version": SGLANG_VERSION, "loads": [rank]})


def _server_load(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    now = load()
    return _json({"server_load": now.running + now.waiting})


def _prometheus(rows: list[tuple[str, str, float]], labels: str) -> tuple[bytes, bytes]:
    lines = []
    for name, kind, value in rows:
        lines.append(f"# TYPE {name} {kind}")
        lines.append(f"{name}{{{labels}}} {float(value)}")
    return PROMETHEUS, ("\n".join(lines) + "\n").encode()


def _vllm_metrics(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    now = load()
    rows = [
        ("vllm:num_requests_running", "gauge", now.running),
        ("vllm:num_requests_waiting", "gauge", now.waiting),
        ("vllm:kv_cache_usage_perc", "gauge", now.token_usage),
        ("vllm:prefix_cache_queries_total", "counter", now.queried_tokens),
        ("vllm:prefix_cache_hits_total", "counter", now.hit_tokens),
        ("vllm:prompt_tokens_total", "counter", now.prompt_tokens),
        ("vllm:generation_tokens_total", "counter", now.generated_tokens),
        ("vllm:request_success_total", "counter", now.finished),
    ]
    return _prometheus(rows, f'engine="0",model_name="{_label(options)}"')


def _sglang_metrics(options: Options, load: Callable[[], Load]) -> tuple[bytes, bytes]:
    now = load()
    hit_rate = now.hit_tokens / now.queried_tokens if now.queried_tokens else 0.0
    rows = [
        ("sglang:num_running_reqs", "gauge", now.running),
        ("sglang:num_queue_reqs", "gauge", now.waiting),
        ("sglang:num_used_tokens", "gauge", now.used_tokens),
        ("sglang:token_usage", "gauge", now.token_usage),
        ("sglang:gen_throughput", "gauge", now.tokens_per_second),
        ("sglang:cache_hit_rate", "gauge", hit_rate),
        ("sglang:prompt_tokens_total", "counter", now.prompt_tokens),
        ("sglang:generation_tokens_total", "counter", now.generated_tokens),
    ]
    return _prometheus(rows, f'model_name="{_label(options)}"')


def _label(options: Options) -> str:
    return options.models[0].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_EVERYWHERE: dict[str, Probe] = {"/health": _empty, "/v1/models": _models}

# By kind; what is missing here answers 404, as with the real engines.
PROBES: dict[str, dict[str, Probe]] = {
    "generic": _EVERYWHERE,
    "vllm": {
        **_EVERYWHERE,
        "/ping": _empty,
        "/version": _version,
        "/load": _server_load,
        "/metrics": _vllm_metrics,
    },
    "sglang": {
        **_EVERYWHERE,
        "/health_generate": _empty,
        "/server_info": _server_info,
        "/get_server_info": _server_info,
        "/model_info": _model_info,
        "/get_model_info": _model_info,
        "/get_load": _get_load,
        "/v1/loads": _v1_loads,
        "/metrics": _sglang_metrics,
    },
}
