"""Worker specifications: what is accepted, refused, merged."""

import msgspec
import pytest

from smg.config.model import Retry
from smg.workers.spec import (
    HealthSpec,
    OverloadSpec,
    PoolSpec,
    ResilienceSpec,
    WorkerSpec,
    is_header_value,
    provider_name,
    provider_of_model,
)
from smg.workers.worker import Connections, HealthOptions, Thresholds


def test_unknown_members_are_ignored() -> None:
    spec = msgspec.json.decode(b'{"url": "http://h", "http_pool": {"a": 1}, "x": []}', type=WorkerSpec)
    assert spec.url == "http://h"
    assert spec.problem() is None


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"url": 5}',
        b'{"url": "u", "worker_type": "bad"}',
        b'{"url": "u", "priority": -1}',
        b'{"url": "u", "priority": 4294967296}',
        b'{"url": "u", "cost": -0.5}',
        b'{"url": "u", "cost": 0}',
        b'{"url": "u", "bootstrap_port": 0}',
        b'{"url": "u", "bootstrap_port": 65536}',
        b'{"url": "u", "dp_rank": "0"}',
        b'{"url": "u", "dp_size": 0}',
        b'{"url": "u", "dp_base_url": 5}',
        b'{"url": "u", "max_connection_attempts": "20"}',
        b'{"url": "u", "http_pool": {"timeout_secs": "1"}}',
        b'{"url": "u", "http_pool": []}',
        b'{"url": "u", "resilience": {"max_retries": 0}}',
        b'{"url": "u", "resilience": {"backoff_multiplier": 0.5}}',
        b'{"url": "u", "http_pool": {"pool_max_idle_per_host": -1}}',
        b'{"url": "u", "http_pool": {"pool_idle_timeout_secs": 0}}',
        b'{"url": "u", "http_pool": {"timeout_secs": 0}}',
        b'{"url": "u", "http_pool": {"connect_timeout_secs": 86401}}',
        b'{"url": "u", "resilience": {"retryable_status_codes": [399]}}',
        b'{"url": "u", "resilience": {"retryable_status_codes": [600]}}',
        b'{"url": "u", "labels": {"a": 1}}',
        b'{"url": "u", "models": [{}]}',
        b'{"url": "u", "health": {"timeout_secs": 0}}',
        b'{"url": "u", "runtime_type": "unknown"}',
    ],
)
def test_wrong_types_are_not(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=WorkerSpec)


@pytest.mark.parametrize(
    "body",
    [
        b'{"url": "u", "worker_type": "encode"}',
        b'{"url": "u", "connection_mode": "grpc"}',
        b'{"url": "u", "api_key": ""}',
        b'{"url": "u", "labels": {"realtime": "True"}}',
        b'{"url": "u", "api_key": "a\\r\\nX: y"}',
        b'{"url": "u", "models": [{"id": ""}]}',
    ],
)
def test_what_is_not_built_or_can_not_be_sent_is_a_problem(body: bytes) -> None:
    assert msgspec.json.decode(body, type=WorkerSpec).problem()


def test_runtime_has_two_spellings() -> None:
    assert WorkerSpec(url="u", runtime="vllm").engine == "vllm"
    assert WorkerSpec(url="u", runtime_type="sglang").engine == "sglang"
    assert WorkerSpec(url="u").engine == "unspecified"


def test_health_members_that_were_given_replace_the_others() -> None:
    merged = HealthSpec(timeout_secs=1, drain_settle_secs=0).over(HealthOptions())
    assert merged == HealthOptions(timeout_s=1, drain_settle_s=0)


@pytest.mark.parametrize(
    ("given", "host", "provider"),
    [
        ("grok", "h", "xai"),
        ("Google", "h", "gemini"),
        ("mine", "api.openai.com", "mine"),
        (None, "api.openai.com", "openai"),
        (None, "x.ai", "xai"),
        (None, "notx.ai", None),
        (None, "openai.com.example", None),
    ],
)
def test_provider(given: str | None, host: str, provider: str | None) -> None:
    assert provider_name(given, host) == provider


def test_provider_of_a_model() -> None:
    assert provider_of_model("claude-x") == "anthropic"
    assert provider_of_model("llama") is None


def test_header_values() -> None:
    assert is_header_value("schlüssel")
    assert not is_header_value(" a")
    assert not is_header_value("a\n")


def test_thresholds_of_a_worker_go_before_the_general_ones() -> None:
    general = Thresholds(8, 0.8)
    assert OverloadSpec().over(general) == general
    assert OverloadSpec(waiting_requests=3).over(general) == Thresholds(3, 0.8)
    assert OverloadSpec(token_usage=0.5).over(Thresholds()) == Thresholds(None, 0.5)


@pytest.mark.parametrize(
    "overload", ['{"waiting_requests": 0}', '{"token_usage": 0}', '{"token_usage": 1.1}']
)
def test_thresholds_that_would_always_or_never_hold(overload: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(f'{{"url": "u", "overload": {overload}}}', type=WorkerSpec)


def test_retries_of_a_worker_have_the_names_of_their_flags() -> None:
    body = b'{"max_retries": 2, "jitter_factor": 0, "disable_retry": false, "cb_failure_threshold": 9}'
    given = msgspec.json.decode(body, type=ResilienceSpec)
    assert given.retries == {"retry_max_retries": 2, "retry_jitter_factor": 0, "disable_retries": False}
    assert set(ResilienceSpec(2, 3, 4, 5.0, 0.5, True).retries) == set(Retry.__struct_fields__)


def test_connections_of_a_worker() -> None:
    body = b'{"pool_max_idle_per_host": 0, "timeout_secs": 5, "connect_timeout_secs": 0.5}'
    given = msgspec.json.decode(body, type=PoolSpec)
    assert given.connections == Connections(max_idle=0, request_s=5, connect_s=0.5)
    assert PoolSpec(pool_idle_timeout_secs=2).connections == Connections(idle_s=2)


def test_statuses_that_are_tried_again() -> None:
    assert ResilienceSpec().retryable is None
    assert ResilienceSpec(retryable_status_codes=()).retryable == frozenset()
    assert ResilienceSpec(retryable_status_codes=(500, 418, 500)).retryable == {418, 500}
