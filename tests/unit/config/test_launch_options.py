import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from smg.cli.parser import Parser
from smg.config.load import ConfigError
from smg.config.model import Config
from smg.config.options import add_launch_options, config_from
from smg.config.specs import ControlPlaneKey, ModelAlias, PrefillUrl, TenantKey, WorkerUrl


def launch(*words: str, environ: Mapping[str, str] | None = None) -> Config:
    parser = Parser(prog="smg launch")
    add_launch_options(parser)
    return config_from(parser.parse_args(words), environ or {})


def problems(*words: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        launch(*words, environ=environ)
    return refused.value.problems


def test_no_words_give_the_defaults() -> None:
    assert launch() == Config()


def test_lists_of_words() -> None:
    config = launch("--worker-urls", "http://a:1", "http://[::1]:2", "--worker-urls", "https://b")
    assert config.workers.worker_urls == tuple(
        map(WorkerUrl.parse, ["http://a:1", "http://[::1]:2", "https://b"])
    )
    assert launch("--worker-urls").workers.worker_urls == ()
    buckets = launch("--prometheus-duration-buckets", "0.5", "7").telemetry.prometheus_duration_buckets
    assert buckets == (0.5, 7.0)


def test_keys() -> None:
    config = launch(
        *("--api-key", " sk ", "--tenant-api-key", "red:r", "--tenant-api-key", "blue:b:c"),
        *("--control-plane-api-keys", "k1:On call:admin:s:t", "k2:x:user:u"),
    )
    assert config.auth.api_key == "sk"
    assert config.auth.tenant_api_key == (TenantKey("red", "r"), TenantKey("blue", "b:c"))
    assert config.auth.control_plane_api_keys == (
        ControlPlaneKey("k1", "On call", "admin", "s:t"),
        ControlPlaneKey("k2", "x", "user", "u"),
    )
    assert not any(secret in repr(config) for secret in ("sk", "b:c", "s:t"))


def test_pairs() -> None:
    config = launch(
        *("--pd-disaggregation", "--prefill", "http://a:1", "9001", "--prefill", "http://b:1", "none"),
        *("--prefill", "http://c:1", "--decode", "http://d:1", "--decode", "http://e:1"),
    )
    halves = ("http://a:1 9001", "http://b:1", "http://c:1")
    assert config.disaggregation.prefill == tuple(map(PrefillUrl.parse, halves))
    assert config.disaggregation.decode == (WorkerUrl("http", "d", 1), WorkerUrl("http", "e", 1))
    words = "http://a:1 9001 http://b:1 none http://c:1"
    for text in (words, '["http://a:1 9001", "http://b:1", "http://c:1 none"]'):
        environ = {"SMG_PREFILL": text, "SMG_PD_DISAGGREGATION": "1"}
        assert launch(environ=environ).disaggregation.prefill == config.disaggregation.prefill
    [problem] = problems("--pd-disaggregation", "--prefill", "http://a:1", "x")
    assert (
        problem
        == "--prefill: 'http://a:1 x': 'x' is not a bootstrap port; give a number up to 65535, or none"
    )


def test_aliases_are_resolved() -> None:
    config = launch("--model-alias", "al2=al", "--model-alias", "al=m1")
    assert config.routing.model_alias == (ModelAlias("al2", "m1"), ModelAlias("al", "m1"))


@pytest.mark.parametrize("policy", ["power_of_two", "least_ttft", "manual", "prefix_hash"])
def test_policies_may_start_without_workers(policy: str) -> None:
    assert launch("--policy", policy).routing.policy == policy


def test_power_of_two_starts_with_two_workers() -> None:
    launch("--policy", "power_of_two", "--worker-urls", "http://a", "http://b")


def test_boundaries_are_in_order_however_they_are_given() -> None:
    config = launch("--cache-index", "hash", "--cache-boundaries", "1024, 64,256")
    assert config.routing.cache_boundaries == (64, 256, 1024)
    assert launch(environ={"SMG_CACHE_BOUNDARIES": " 32,16 "}).routing.cache_boundaries == (16, 32)


def test_other_spellings_of_routing_options() -> None:
    routing = launch(
        *("--cache-match-threshold", "0.5", "--spill-abs-threshold", "3", "--spill-rel-threshold", "2"),
        *("--sticky-sessions", "--sticky-key-idle-secs", "9", "--routing-key-headers", "x-a", "x-b"),
    ).routing
    assert (routing.cache_threshold, routing.balance_abs_threshold) == (0.5, 3)
    assert (routing.balance_rel_threshold, routing.max_idle_secs) == (2.0, 9)
    assert routing.routing_key_override is True
    assert routing.routing_key_headers == ("x-a", "x-b")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--remove-unhealthy-workers", True),
        ("--no-remove-unhealthy-workers", False),
        ("--worker-auto-recovery", True),
        ("--no-worker-auto-recovery", False),
    ],
)
def test_both_spellings_of_removal(flag: str, value: bool) -> None:
    assert launch(flag).workers.remove_unhealthy_workers is value


def test_timeouts_are_off_until_given() -> None:
    config = launch("--connect-timeout-secs", "0.5", "--first-byte-timeout-secs", "3")
    assert config.upstream.connect_timeout_secs == 0.5
    assert config.upstream.first_byte_timeout_secs == 3.0
    assert config.upstream.between_bytes_timeout_secs is None


def test_a_unix_socket_turns_tcp_off_unless_a_port_is_given(tmp_path: Path) -> None:
    path = str(tmp_path / "smg.sock")
    assert launch("--uds", path).listen.port is None
    assert launch("--uds", path, "--port", "30000").listen.port == 30000
    assert launch("--uds", path, environ={"SMG_PORT": "0"}).listen.port == 0


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["--port", "x"], "--port: needs an integer from 0 to 65535, not 'x'"),
        (["--port", "65536"], "not 65536"),
        (["--port", "-1"], "not -1"),
        (["--port", "1_0"], "not '1_0'"),
        (["--port", "٣"], "not '٣'"),
        (["--port", "8.0"], "not '8.0'"),
        (["--request-timeout-secs", "9" * 30], "needs an integer"),
        (["--request-timeout-secs", "0"], "from 1 to"),
        (["--header-read-timeout-secs", "0"], "from 1 to"),
        (["--retry-max-retries", "0"], "--retry-max-retries: needs an integer from 1"),
        (["--health-failure-threshold", "0"], "from 1 to"),
        (["--retry-backoff-multiplier", "0.5"], "at least 1"),
        (["--retry-backoff-multiplier", "nan"], "not 'nan'"),
        (["--retry-backoff-multiplier", "inf"], "not 'inf'"),
        (["--retry-backoff-multiplier", "1e999"], "not inf"),
        (["--retry-jitter-factor", "1.5"], "at most 1"),
        (["--connect-timeout-secs", "0"], "a number above 0"),
        (["--prometheus-duration-buckets", "1", "x"], "'x': needs a number above 0"),
        (["--log-level", "trace"], "one of debug, info, warn, error"),
        (["--api-key", " "], "must not be empty"),
        (["--api-key", "a\nb"], "control characters"),
        (["--policy", "best"], "one of round_robin, random, passthrough"),
        (["--policy", "bucket"], "is a policy for --prefill-policy only"),
        (["--backend", "anthropic"], "--backend anthropic is not built yet"),
        (["--backend", "tokenspeed"], "is not built yet"),
        (["--worker-urls", "grpc://a:1"], "'grpc://a:1': gRPC workers are not built yet"),
        (["--model-alias", "a=b", "--model-alias", "b=a"], "--model-alias: the aliases run in a circle"),
        (["--tenant-api-key", "x"], "--tenant-api-key: entry 1:"),
        (["--tenant-api-key", "a:k", "--tenant-api-key", "b:k"], "tenants 'a' and 'b' have the same key"),
        (["--control-plane-api-keys", "id:name:root:k"], "admin or user"),
        (["--max-concurrent-requests", "-2"], "--max-concurrent-requests: needs an integer from -1 to"),
        (["--queue-timeout-secs", "0"], "--queue-timeout-secs: needs an integer from 1 to"),
        (["--rate-limit-tokens-per-second=-1"], "needs an integer from 0 to"),
        (["--priority-scheduler-default-max-class", "root"], "one of system, interactive, default, bulk"),
        (
            ["--priority-scheduler-enabled", "--priority-scheduler-config", "/none.yaml"],
            "--priority-scheduler-config: /none.yaml cannot be read",
        ),
        (["--tenant-rate-limit-enabled"], "needs the file of --tenant-rate-limit-config"),
        (
            ["--tenant-rate-limit-enabled", "--tenant-rate-limit-config", "/none.yaml"],
            "--tenant-rate-limit-config: /none.yaml cannot be read",
        ),
        (["--tenant-header-name", "x org"], "--tenant-header-name: 'x org' is not a header name"),
        (["--tenant-header-name", "X-API-Key"], "--tenant-header-name: X-API-Key holds a secret"),
        (["--request-id-headers", "x-id", "Cookie"], "--request-id-headers: Cookie holds a secret"),
        (["--queue-size=-1"], "--queue-size: needs an integer from 0 to"),
        (["--enable-mesh"], "--enable-mesh is not offered"),
        (["--upstream-http2"], "--upstream-http2 is not offered"),
        (["--state-redis-url", "http://x"], "--state-redis-url begins with redis://"),
        (["--encode", "http://a", "none"], "--encode is not built yet"),
        (["--encode-policy", "random"], "--encode-policy is not built yet"),
        (["--worker-stale-secs", "3"], "--worker-stale-secs is not built yet"),
        (["--eviction-interval-secs", "0"], "from 1 to"),
        (["--block-size", "0"], "from 1 to"),
        (["--job-queue-capacity", "0"], "from 1 to"),
        (["--job-queue-concurrency", "0"], "from 1 to"),
        (["--worker-startup-delay=-1"], "from 0 to"),
        (["--balance-rel-threshold", "0.99"], "a number of at least 1"),
        (["--retry-initial-backoff-ms", "0"], "from 1 to"),
        (["--cache-threshold", "1.1"], "a number of at least 0 and at most 1"),
        (["--prefix-hash-load-factor", "0.9"], "a number of at least 1"),
        (["--least-load-default-throughput", "0"], "a number above 0"),
        (["--prefix-token-count", "0"], "from 1 to"),
        (["--max-tree-size", "0"], "from 1 to"),
        (["--cache-ttl-secs", "0"], "from 1 to"),
        (["--sticky-key-idle-secs", "0"], "from 1 to"),
        (["--load-monitor-interval", "0"], "from 1 to"),
        (["--power-of-two-load-metric", "tokens"], "one of expected_wait, requests, least_requests"),
        (["--assignment-mode", "min"], "one of random, min_load, min_group, delegate"),
        (["--cache-boundaries", "0,16"], "integers from 1 to 2147483647 between commas, not 0"),
        (["--cache-boundaries", "16,"], "not ''"),
        (["--cache-boundaries="], "not ''"),
        (["--cache-boundaries", "16 64"], "not '16 64'"),
        (["--cache-boundaries", "64,16,64"], "--cache-boundaries: has 64 twice"),
        (["--cache-index", "hash"], "needs the lengths it compares, --cache-boundaries"),
        (["--routing-key-headers", "x-a", "x b"], "--routing-key-headers: 'x b' is not a header name"),
        (["--policy", "power_of_two", "--worker-urls", "http://a"], "needs at least two workers"),
    ],
)
def test_refused(words: list[str], piece: str) -> None:
    (problem,) = problems(*words)
    assert piece in problem


def test_all_problems_are_reported_together() -> None:
    found = problems(
        *("--port", "x", "--enable-mesh", "--policy", "bucket", "--tls-cert-path", "/nowhere/c"),
        *("--worker-urls", "a", "grpc://b", "--retry-max-retries", "0"),
        environ={"SMG_HEALTH_CHECK_TIMEOUT_SECS": "x", "SMG_ENABLE_RL": "1"},
    )
    assert len(found) == 9
    assert sum("--worker-urls" in problem for problem in found) == 1
    assert not any("\n" in problem for problem in found)


def test_rules_about_a_value_that_could_not_be_read_are_left_out() -> None:
    assert len(problems("--retry-initial-backoff-ms", "x", "--retry-max-backoff-ms", "1")) == 1


def test_secrets_stay_out_of_problems() -> None:
    found = problems(
        *("--tenant-api-key", "hunter2", "--control-plane-api-keys", "a:b:c:hunter2", "x:hunter2"),
        *("--worker-urls", "http://user:hunter2@a"),
        *("--api-key", "hunter2\n"),
    )
    assert len(found) == 4
    assert "hunter2" not in "".join(found)


def test_excluded_options_belong_to_the_command() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path")
    parser.add_argument("--worker-urls", type=int)
    add_launch_options(parser, exclude=("--model-path", "worker_urls"))
    args = parser.parse_args(["--model-path", "x", "--worker-urls", "3", "--port", "1"])
    environ = {"SMG_MODEL_PATH": "x", "SMG_WORKER_URLS": "http://b"}
    config = config_from(args, environ)
    assert (config.listen.port, config.workers.worker_urls) == (1, ())
    config = config_from(args, environ, fixed={"worker_urls": ["http://a:1"]})
    assert config.workers.worker_urls == (WorkerUrl("http", "a", 1),)


def test_help_shows_brackets_and_every_option_once(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="smg launch", usage="smg launch [options]")
    add_launch_options(parser)
    parser.print_help()
    text = capsys.readouterr().out
    assert "[URL ...]" in text
    assert text.count("--worker-startup-check-interval") == 1
    assert "--selection-policy" not in text
