"""The table of metrics: name, kind, labels in the order they are shown, and what it tells.

A family is shown once something is plugged into it (see metrics.py); docs/metrics.md is made of this table.
"""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Family(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


_ROUTER = ("router_type", "backend_type", "connection_mode", "model", "endpoint")
_SELECTED = ("worker_type", "connection_mode", "model", "policy")

_HTTP = (
    Family(
        "smg_http_requests_total",
        COUNTER,
        ("method", "path"),
        "Requests by route; unknown paths are `other`.",
    ),
    Family(
        "smg_http_responses_total",
        COUNTER,
        ("path", "status_code", "error_code"),
        "Answers by route, status and the gateway's error code. 499 with client_closed_request: the client "
        "left first; a 200 with stream_error: its stream broke.",
    ),
    Family(
        "smg_http_request_duration_seconds", HISTOGRAM, ("method", "path"), "From head to end of the answer."
    ),
    Family("smg_http_connections_active", GAUGE, (), "Open client connections."),
    Family("smg_http_busy_connections", GAUGE, (), "Client connections with a request."),
    Family(
        "smg_http_exchanges_total", COUNTER, ("way",), "Requests by way: the compiled ingress or aiohttp."
    ),
    Family("smg_http_refused_total", COUNTER, (), "Requests that broke HTTP's rules."),
    Family("smg_http_client_left_total", COUNTER, (), "Exchanges whose client left before the end."),
    Family("smg_realtime_sessions", GAUGE, (), "Open sessions of the Realtime API."),
    Family(
        "smg_http_rate_limit_total", COUNTER, ("result",), "Requests the admission limit let pass or refused."
    ),
)

_ADMISSION = (
    Family("smg_admission_inflight", GAUGE, (), "Requests that hold a permit."),
    Family("smg_admission_queue_depth", GAUGE, (), "Requests that wait for a permit."),
    Family("smg_admission_queue_wait_seconds", HISTOGRAM, (), "Time that requests waited for a permit."),
    Family(
        "smg_scheduler_admit_total",
        COUNTER,
        ("class", "outcome"),
        "Requests by priority class and what became of their wait.",
    ),
    Family(
        "smg_scheduler_clamp_total",
        COUNTER,
        ("tenant", "requested_class", "effective_class"),
        "Requests that asked for a better class than their tenant may have.",
    ),
    Family("smg_scheduler_queue_wait_seconds", HISTOGRAM, ("class",), "Time waited in a class's queue."),
    Family(
        "smg_scheduler_preemption_total",
        COUNTER,
        ("victim_class", "by_class"),
        "Requests ended early for one of a better class.",
    ),
    Family("smg_scheduler_inflight", GAUGE, ("class",), "Requests of a class in flight."),
    Family("smg_scheduler_queue_depth", GAUGE, ("class",), "Requests of a class that wait."),
    Family("smg_scheduler_queue_size_limit", GAUGE, ("class",), "How many requests of a class may wait."),
    Family(
        "smg_scheduler_class_capacity_pressure",
        GAUGE,
        ("class",),
        "Share of the capacity open to a class that is taken.",
    ),
    Family("smg_scheduler_utilization", GAUGE, (), "Share of the whole capacity that is taken."),
    Family(
        "smg_tenant_requests_total", COUNTER, ("result",), "Requests that tenants' limits let pass or not."
    ),
    Family("smg_tenant_tokens_total", COUNTER, (), "Tokens that tenants' limits have counted."),
)

_ROUTING = (
    Family(
        "smg_router_requests_total",
        COUNTER,
        (*_ROUTER, "streaming"),
        "Calls by model and endpoint. `unknown`: no model is named; `other`: nobody is known to serve it.",
    ),
    Family(
        "smg_router_request_duration_seconds", HISTOGRAM, _ROUTER, "Duration of calls that got an answer."
    ),
    Family(
        "smg_router_request_errors_total",
        COUNTER,
        (*_ROUTER, "error_type"),
        "Calls that failed, by the sort of failure.",
    ),
    Family(
        "smg_router_upstream_responses_total",
        COUNTER,
        ("router_type", "status_code", "error_code"),
        "Outcomes of attempts: a worker's status, or the gateway's status and code when there was no answer.",
    ),
    Family(
        "smg_router_request_body_path_total",
        COUNTER,
        ("path", "reason"),
        "Bodies read before a worker was chosen (buffered), or passed on as they came (streamed), and why.",
    ),
    Family(
        "smg_router_ttft_seconds",
        HISTOGRAM,
        ("model", "endpoint"),
        "From a request's head to the first event of a stream, or to the head of a plain answer.",
    ),
    Family("smg_router_event_gap_seconds", HISTOGRAM, (), "Between two pieces of a stream, as they come in."),
    Family(
        "smg_router_stream_longest_gap_seconds", HISTOGRAM, ("endpoint",), "The longest gap of each stream."
    ),
    Family("smg_upstream_connections", GAUGE, (), "Open worker connections."),
    Family("smg_upstream_connects_total", COUNTER, (), "Worker connections made."),
    Family("smg_upstream_connect_seconds", HISTOGRAM, (), "Time to make a worker connection, TLS included."),
    Family(
        "smg_cache_aware_policy_branch_total", COUNTER, ("branch",), "Choices of cache_aware by their reason."
    ),
    Family(
        "smg_consistent_hashing_policy_branch_total", COUNTER, ("branch",), "The same of consistent_hashing."
    ),
    Family(
        "smg_manual_policy_branch_total", COUNTER, ("branch",), "The same of manual and of sticky sessions."
    ),
    Family("smg_prefix_hash_policy_branch_total", COUNTER, ("branch",), "The same of prefix_hash."),
    Family(
        "smg_cache_aware_match_ratio",
        HISTOGRAM,
        (),
        "Share of each prompt that the best worker is believed to hold.",
    ),
)

_WORKERS = (
    Family("smg_worker_pool_size", GAUGE, ("worker_type", "connection_mode", "model"), "Registered workers."),
    Family("smg_worker_health", GAUGE, ("worker",), "1 when a worker is routed to."),
    Family("smg_worker_requests_active", GAUGE, ("worker",), "Requests in flight to a worker."),
    Family("smg_worker_http2", GAUGE, ("worker",), "1 when the worker is spoken to in HTTP/2."),
    Family("smg_worker_requests_total", COUNTER, ("worker", "model"), "Attempts at a worker."),
    Family("smg_worker_health_checks_total", COUNTER, ("worker_type", "result"), "Health checks."),
    Family("smg_worker_selection_total", COUNTER, _SELECTED, "Workers chosen, by model and policy."),
    Family("smg_worker_cb_state", GAUGE, ("worker",), "Circuit breaker: 0 closed, 1 open, 2 half-open."),
    Family("smg_worker_cb_transitions_total", COUNTER, ("worker", "from", "to"), "Changes of a breaker."),
    Family("smg_worker_cb_outcomes_total", COUNTER, ("worker", "outcome"), "What a breaker was told."),
    Family("smg_worker_cb_consecutive_failures", GAUGE, ("worker",), "Failures in a row within the window."),
    Family("smg_worker_cb_consecutive_successes", GAUGE, ("worker",), "Successes since the last failure."),
    Family("smg_worker_retries_total", COUNTER, ("worker_type", "endpoint"), "Attempts after the first."),
    Family(
        "smg_worker_retries_exhausted_total",
        COUNTER,
        ("worker_type", "endpoint"),
        "Requests that were tried again and failed all the same.",
    ),
    Family("smg_worker_retry_backoff_seconds", HISTOGRAM, ("attempt",), "Pauses before another attempt."),
    Family(
        "smg_retry_budget_exhausted_total", COUNTER, (), "Retries not made because too many were under way."
    ),
    Family(
        "smg_worker_overload_shed_total",
        COUNTER,
        ("stage",),
        "Requests refused because every worker was overloaded.",
    ),
    Family(
        "smg_worker_overload_fallback_total",
        COUNTER,
        ("stage",),
        "Requests sent to an overloaded worker because there was no other.",
    ),
    Family(
        "smg_pd_prefill_requests_total", COUNTER, ("worker", "model"), "Requests sent to prefill workers."
    ),
    Family("smg_pd_waiting", GAUGE, ("leg",), "Requests that wait for room at a half of a pair."),
    Family(
        "smg_pd_refused_total", COUNTER, ("leg", "reason"), "Requests that found no room at a half of a pair."
    ),
    Family("smg_workers_overloaded", GAUGE, ("model",), "Workers that are overloaded."),
    Family("smg_engine_load_polls_total", COUNTER, ("worker", "mode"), "Questions to a worker for its load."),
    Family("smg_worker_engine_running", GAUGE, ("worker",), "Running requests, as the engine reports them."),
    Family("smg_worker_engine_waiting", GAUGE, ("worker",), "Waiting requests, as the engine reports them."),
    Family("smg_worker_engine_cache_usage", GAUGE, ("worker",), "Share of the engine's KV cache in use."),
    Family(
        "smg_worker_prompt_bytes_total",
        COUNTER,
        ("worker",),
        "Text of the prompts that cache_aware placed on a worker.",
    ),
    Family(
        "smg_worker_matched_bytes_total",
        COUNTER,
        ("worker",),
        "How much of it the worker was believed to hold: the quotient is its share of hits.",
    ),
    Family("smg_workers_warming", GAUGE, (), "Workers that get less than their share until they are warm."),
)

_DISCOVERY = (
    Family(
        "smg_discovery_registrations_total", COUNTER, ("source", "result"), "Workers found and registered."
    ),
    Family("smg_discovery_deregistrations_total", COUNTER, ("source", "reason"), "Workers taken away again."),
    Family(
        "smg_discovery_snapshot_errors_total", COUNTER, ("source", "reason"), "Lists that could not be read."
    ),
    Family("smg_discovery_workers_discovered", GAUGE, ("source",), "Workers in the list last read."),
    Family(
        "smg_discovery_sync_duration_seconds", HISTOGRAM, ("source",), "Time to bring the registry in line."
    ),
)

_STATE = (
    Family("smg_state_up", GAUGE, (), "1 while the Redis that gateways share answers."),
    Family(
        "smg_state_questions_total",
        COUNTER,
        ("result",),
        "Questions to the shared Redis: `answered`, `failed` for want of an answer in time, or `dropped` for "
        "want of room.",
    ),
)

_PROCESS = (
    Family("smg_build_info", GAUGE, ("version",), "Always 1."),
    Family(
        "smg_loop_lag_seconds", HISTOGRAM, (), "How late the event loop runs a timer, probed twice a second."
    ),
    Family("smg_loop_tasks", GAUGE, (), "Tasks of the event loop."),
    Family("smg_trace_spans_total", COUNTER, ("result",), "Spans given to the collector, or lost."),
    Family("process_cpu_seconds_total", COUNTER, (), "CPU time of the process, user and system."),
    Family("process_resident_memory_bytes", GAUGE, (), "Resident memory."),
    Family("process_virtual_memory_bytes", GAUGE, (), "Virtual memory."),
    Family("process_start_time_seconds", GAUGE, (), "When the process started, seconds since the epoch."),
    Family("process_open_fds", GAUGE, (), "Open file descriptors."),
    Family("process_max_fds", GAUGE, (), "Limit of open file descriptors."),
)

FAMILIES = (*_HTTP, *_ADMISSION, *_ROUTING, *_WORKERS, *_DISCOVERY, *_STATE, *_PROCESS)
