"""Every error once, for the documentation and the tests."""

from __future__ import annotations

from collections.abc import Iterator

from smg.errors.admission import no_permit, scheduler_preempted, shutting_down, tenant_rate_limit_exceeded
from smg.errors.control import (
    admin_role_required,
    bad_worker_request,
    control_plane_unauthorized,
    malformed_json,
    too_many_jobs,
    too_many_workers,
    worker_already_exists,
    worker_create_in_progress,
    worker_not_found,
)
from smg.errors.error import GatewayError
from smg.errors.requests import (
    invalid_call,
    invalid_tenant_header,
    json_parse_error,
    malformed_form,
    malformed_request,
    method_not_allowed,
    missing_realtime_model,
    model_not_found,
    no_upgrade,
    origin_not_allowed,
    request_body_aborted,
    request_body_stalled,
    request_body_timeout,
    request_body_too_large,
    unauthorized,
    unknown_url,
    unprocessable,
    unsupported_decisions_request,
    unsupported_media_type,
    validation_failed,
)
from smg.errors.unsupported import (
    decisions_not_supported,
    heap_profile_not_built,
    internal_error,
    not_implemented,
    transcriptions_not_supported,
    upload_not_stored,
    wasm_not_offered,
    webrtc_not_supported,
)
from smg.errors.workers import (
    call_upstream_connection_failed,
    call_upstream_request_error,
    call_upstream_timeout,
    dp_aware_not_supported,
    invalid_decisions_response,
    no_available_workers,
    no_engine_metrics,
    no_models_available,
    no_pair,
    no_workers,
    read_response_body_failed,
    realtime_refused,
    upstream_decisions_error,
    upstream_response_too_large,
    worker_overload_protection_shed,
)


def table() -> Iterator[GatewayError]:
    """One example of every error above, for docs/errors.md and its test."""
    yield json_parse_error("…")
    yield validation_failed("…")
    yield malformed_form("…")
    yield unsupported_decisions_request("…")
    yield unprocessable("…")
    yield missing_realtime_model()
    yield no_upgrade()
    yield origin_not_allowed()
    for code in ("missing_model", "missing_sdp", "invalid_sdp", "invalid_session_json"):
        yield invalid_call(code, "…")
    yield invalid_call("invalid_content_type", "…")
    yield invalid_call("invalid_multipart", "…")
    yield unauthorized("data-plane", wrong_key=False)
    yield control_plane_unauthorized(wrong_key=False)
    yield admin_role_required()
    yield bad_worker_request("…")
    yield worker_not_found("…")
    yield worker_already_exists("…")
    yield worker_create_in_progress("…")
    yield unsupported_media_type()
    yield malformed_json("…")
    yield unknown_url("GET", "/x")
    yield method_not_allowed("GET", "/v1/chat/completions", "POST")
    yield model_not_found("m")
    yield request_body_too_large(1)
    yield request_body_stalled(1)
    yield request_body_timeout(1)
    yield request_body_aborted()
    yield malformed_request(400, "…")
    yield no_available_workers("m")
    yield worker_overload_protection_shed("m", 10)
    yield dp_aware_not_supported("Transcription")
    yield from no_pair()
    yield no_workers()
    yield call_upstream_connection_failed()
    yield call_upstream_request_error()
    yield read_response_body_failed()
    yield call_upstream_timeout(1)
    yield upstream_response_too_large(1)
    yield invalid_decisions_response("…")
    yield upstream_decisions_error(400, "…")
    yield realtime_refused(502)
    yield no_engine_metrics()
    yield no_models_available()
    yield too_many_workers(1)
    yield too_many_jobs(1)
    yield not_implemented("…")
    yield decisions_not_supported()
    yield transcriptions_not_supported()
    yield webrtc_not_supported()
    yield heap_profile_not_built()
    yield wasm_not_offered()
    yield upload_not_stored()
    yield internal_error()
    yield invalid_tenant_header("x", 1)
    yield from no_permit()
    yield scheduler_preempted()
    yield tenant_rate_limit_exceeded(1)
    yield shutting_down()
