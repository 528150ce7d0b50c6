from pathlib import Path

import pytest

from smg.config.load import ConfigError, load
from smg.config.specs import ControlPlaneKey, WorkerUrl


@pytest.fixture
def write(tmp_path: Path):
    def to_file(text: str) -> str:
        path = tmp_path / "smg.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return to_file


def problems(flags: dict[str, object], environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        load(flags, environ)
    return refused.value.problems


def test_flag_wins_over_environment_over_file_over_default(write) -> None:
    path = write("port: 3\nlog_level: warn\nrequest_timeout_secs: 9\n")
    config = load({"config": path, "port": "1"}, {"SMG_PORT": "2", "SMG_LOG_LEVEL": "error"})
    assert config.listen.port == 1
    assert config.telemetry.log_level == "error"
    assert config.upstream.request_timeout_secs == 9
    assert config.upstream.upstream_pool_idle_timeout_secs == 3


def test_lists_are_not_merged(write) -> None:
    path = write("worker_urls: [http://a, http://b]")
    assert load({"config": path}, {"SMG_WORKER_URLS": "http://c"}).workers.worker_urls == (
        WorkerUrl("http", "c", 80),
    )


def test_every_kind_from_a_file(write) -> None:
    path = write(
        "health-check-port: 30001\n"
        "connect_timeout_secs: 1\n"
        "disable_retries: true\n"
        "remove_unhealthy_workers: false\n"
        "prometheus_duration_buckets: [1, 2.5]\n"
        "control_plane_api_keys: ['k1:On call:admin:s']\n"
        "api_key: null\n"
        "enable_mesh: false\n"
    )
    config = load({}, {"SMG_CONFIG": path})
    assert config.listen.health_check_port == 30001
    assert config.upstream.connect_timeout_secs == 1.0
    assert config.retry.disable_retries is True
    assert config.workers.remove_unhealthy_workers is False
    assert config.telemetry.prometheus_duration_buckets == (1.0, 2.5)
    assert config.auth.control_plane_api_keys == (ControlPlaneKey("k1", "On call", "admin", "s"),)
    assert config.auth.api_key is None


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("[64, 16]", (16, 64)),
        ("'64,16'", (16, 64)),
        ("16, 64", (16, 64)),
        ("16", (16,)),
        ("[]", ()),
        ("null", ()),
    ],
)
def test_integers_from_a_file(write, text: str, bounds: tuple[int, ...]) -> None:
    config = load({"config": write(f"cache_boundaries: {text}")}, {})
    assert config.routing.cache_boundaries == bounds


def test_an_empty_file_changes_nothing(write) -> None:
    assert load({"config": write("# nothing\n")}, {}) == load({}, {})


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("port: '1'", "port in "),
        ("port: 1.0", "needs an integer"),
        ("port: true", "needs an integer"),
        ("disable_retries: 1", "needs true or false"),
        ("disable_retries: 'yes'", "needs true or false"),
        ("api_key: 123", "put quotes around it"),
        ("worker_urls: http://a", "needs a list"),
        ("worker_urls: [1]", "needs a list of texts"),
        ("prometheus_duration_buckets: [1, a]", "needs a number"),
        ("policy: bucket", "bucket is a policy for --prefill-policy only"),
        ("cache_boundaries: [16, '64']", "integers from 1 to 2147483647 between commas, not '64'"),
        ("cache_boundaries: [16, true]", "not True"),
        ("cache_boundaries: [16, 16]", "has 16 twice"),
        ("cache_boundaries: {a: 1}", "needs integers"),
        ("prot: 1", "did you mean port?"),
        ("zzzzzz: 1", "is not an option"),
        ("selection_policy: x", "is not built yet"),
        ("enable_mesh: true", "is not offered"),
        ("[1, 2]", "no YAML mapping"),
        ("a: [", "no YAML mapping"),
        ("\0", "no YAML mapping"),
    ],
)
def test_refused_from_a_file(write, text: str, piece: str) -> None:
    (problem,) = problems({"config": write(text)}, {})
    assert piece in problem
    assert "smg.yaml" in problem
    assert "\n" not in problem


def test_a_wrong_secret_in_a_file_is_not_shown(write) -> None:
    (problem,) = problems({"config": write("api_key: 112233")}, {})
    assert "112233" not in problem


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems({"config": str(tmp_path / "none.yaml")}, {})
    assert "cannot be read: No such file" in problem


def test_lists_in_the_environment() -> None:
    keys = '["k1:On call:admin:s", "k2:x:user:t"]'
    config = load({}, {"SMG_WORKER_URLS": " http://a  http://b:1 ", "SMG_CONTROL_PLANE_API_KEYS": keys})
    assert [url.base for url in config.workers.worker_urls] == ["http://a", "http://b:1"]
    assert [key.id for key in config.auth.control_plane_api_keys] == ["k1", "k2"]
    (problem,) = problems({}, {"SMG_TENANT_API_KEY": "[hunter2"})
    assert "JSON array" in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("ON", True), ("no", False)])
def test_switches_in_the_environment(text: str, value: bool) -> None:
    assert load({}, {"SMG_LOG_JSON": text}).telemetry.log_json is value


def test_wrong_switch_in_the_environment() -> None:
    assert problems({}, {"SMG_LOG_JSON": "maybe"}) == ("SMG_LOG_JSON: needs true or false, not 'maybe'",)


def test_empty_and_foreign_variables_are_ignored() -> None:
    environ = {
        "SMG_API_KEY": "",
        "SMG_HOST": "  ",
        "SMG_PORT": "tcp://10.0.0.1:30000",
        "SMG_PROMETHEUS_PORT": "tcp://10.0.0.2:1",
        "SMG_MESH_PORT": "tcp://10.0.0.2:1",
        "SMG_SERVICE_HOST": "10.0.0.1",
        "SMG_ENABLE_MESH": "false",
    }
    assert load({}, environ) == load({}, {})


def test_refused_variables_are_named() -> None:
    (problem,) = problems({}, {"SMG_SELECTION_POLICY": "x"})
    assert problem.startswith("SMG_SELECTION_POLICY is not built yet")


def test_the_answer_lists_one_problem_a_line() -> None:
    one, two = ConfigError(["a"]), ConfigError(["a", "b"])
    assert one.render() == "cannot start, there is a problem:\n  - a"
    assert two.render() == "cannot start, there are 2 problems:\n  - a\n  - b"
