"""The metrics that other tools know have the names, kinds and labels, in this order, that they expect."""

from __future__ import annotations

import pytest

from smg.telemetry.families import FAMILIES

_ROUTER = "router_type backend_type connection_mode model endpoint"
EXPECTED = """
smg_http_requests_total counter method path
smg_http_responses_total counter path status_code error_code
smg_http_request_duration_seconds histogram method path
smg_http_connections_active gauge
smg_http_rate_limit_total counter result
smg_admission_inflight gauge
smg_router_requests_total counter ROUTER streaming
smg_router_request_duration_seconds histogram ROUTER
smg_router_request_errors_total counter ROUTER error_type
smg_router_upstream_responses_total counter router_type status_code error_code
smg_router_request_body_path_total counter path reason
smg_worker_pool_size gauge worker_type connection_mode model
smg_worker_health gauge worker
smg_worker_requests_active gauge worker
smg_worker_http2 gauge worker
smg_worker_requests_total counter worker model
smg_worker_health_checks_total counter worker_type result
smg_worker_selection_total counter worker_type connection_mode model policy
smg_worker_cb_state gauge worker
smg_worker_cb_transitions_total counter worker from to
smg_worker_cb_outcomes_total counter worker outcome
smg_worker_cb_consecutive_failures gauge worker
smg_worker_cb_consecutive_successes gauge worker
smg_worker_retries_total counter worker_type endpoint
smg_worker_retries_exhausted_total counter worker_type endpoint
smg_worker_retry_backoff_seconds histogram attempt
smg_worker_overload_shed_total counter stage
smg_worker_overload_fallback_total counter stage
smg_workers_overloaded gauge model
smg_engine_load_polls_total counter worker mode
smg_cache_aware_policy_branch_total counter branch
smg_consistent_hashing_policy_branch_total counter branch
smg_manual_policy_branch_total counter branch
smg_prefix_hash_policy_branch_total counter branch
smg_cache_aware_match_ratio histogram
smg_scheduler_admit_total counter class outcome
smg_scheduler_clamp_total counter tenant requested_class effective_class
smg_scheduler_queue_wait_seconds histogram class
smg_scheduler_preemption_total counter victim_class by_class
smg_scheduler_inflight gauge class
smg_scheduler_queue_depth gauge class
smg_scheduler_queue_size_limit gauge class
smg_scheduler_class_capacity_pressure gauge class
smg_scheduler_utilization gauge
smg_discovery_registrations_total counter source result
smg_discovery_deregistrations_total counter source reason
smg_discovery_snapshot_errors_total counter source reason
smg_discovery_workers_discovered gauge source
smg_discovery_sync_duration_seconds histogram source
""".replace("ROUTER", _ROUTER)
TABLE = {family.name: (family.kind, *family.labels) for family in FAMILIES}


@pytest.mark.parametrize("line", EXPECTED.split("\n")[1:-1], ids=lambda line: line.split()[0])
def test_a_known_metric(line: str) -> None:
    name, *rest = line.split()
    assert TABLE[name] == tuple(rest)
