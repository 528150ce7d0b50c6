from pathlib import Path

import pytest
from msgspec.structs import replace

from smg.config.disaggregation import Disaggregation
from smg.config.load import check
from smg.config.model import Auth, Config, Listen, Protection, Retry, Routing, Telemetry, Upstream, Workers
from smg.config.specs import ControlPlaneKey, PrefillUrl, TenantKey, WorkerUrl

URL = WorkerUrl("http", "a", 1)


def test_the_defaults_are_fine() -> None:
    assert check(Config()) == []


@pytest.mark.parametrize(
    ("config", "piece"),
    [
        (Config(listen=Listen(cors_allowed_origins=("*", "http://a"))), "stands alone"),
        (Config(listen=Listen(cors_allowed_origins=("a.example",))), "not an origin"),
        (Config(listen=Listen(cors_allowed_origins=("http://a/x",))), "not an origin"),
        (Config(listen=Listen(request_id_headers=("x y",))), "not a header name"),
        (
            Config(routing=Routing(routing_key_headers=("x:y",))),
            "--routing-key-headers: 'x:y' is not a header",
        ),
        (Config(routing=Routing(cache_index="hash")), "--cache-boundaries"),
        (
            Config(
                protection=Protection(worker_overload_shed=True),
                workers=Workers(disable_load_monitoring=True),
            ),
            "--worker-overload-shed needs the workers' reports",
        ),
        (
            Config(
                routing=Routing(policy="power_of_two"),
                workers=Workers(worker_urls=(WorkerUrl("http", "a", 1),)),
            ),
            "--policy power_of_two needs at least two workers",
        ),
        (Config(disaggregation=Disaggregation(decode=(URL,))), "--decode needs --pd-disaggregation"),
        (
            Config(disaggregation=Disaggregation(prefill=(PrefillUrl(URL),))),
            "--prefill needs --pd-disaggregation",
        ),
        (
            Config(
                disaggregation=Disaggregation(
                    pd_disaggregation=True, prefill=(PrefillUrl(URL, 1), PrefillUrl(URL, 2)), decode=(URL,)
                )
            ),
            "http://a:1 can be only one of",
        ),
        (
            Config(
                disaggregation=Disaggregation(
                    pd_disaggregation=True, prefill=(PrefillUrl(URL),), prefill_policy="power_of_two"
                )
            ),
            "--prefill-policy power_of_two needs at least two workers",
        ),
        (Config(listen=Listen(health_check_port=30000)), "--port and --health-check-port are both 30000"),
        (Config(listen=Listen(port=29000)), "--port and --prometheus-port are both 29000"),
        (Config(listen=Listen(uds="/nowhere/smg.sock")), "there is no directory /nowhere"),
        (Config(listen=Listen(uds="/" + "x" * 108)), "longer than"),
        (Config(listen=Listen(uds="/dev/null")), "is not a socket"),
        (Config(upstream=Upstream(ca_cert_paths=("/nowhere/ca",))), "there is no file /nowhere/ca"),
        (
            Config(
                routing=Routing(policy="power_of_two"),
                workers=Workers(worker_urls=(WorkerUrl("http", "a", 1),) * 2),
            ),
            "needs at least two workers",
        ),
        (Config(workers=Workers(health_check_endpoint="health")), "beginning with /"),
        (Config(workers=Workers(health_check_endpoint="/a b")), "beginning with /"),
        (Config(retry=Retry(retry_max_backoff_ms=1)), "is less than"),
        (Config(auth=Auth(api_key="k", tenant_api_key=(TenantKey("a", "k"),))), "also the shared --api-key"),
        (
            Config(
                auth=Auth(control_plane_api_keys=tuple(ControlPlaneKey(x, "", "user", "k") for x in "ab"))
            ),
            "'a' and 'b' have the same key",
        ),
        (Config(telemetry=Telemetry(prometheus_duration_buckets=(1, 1))), "greater than the one before"),
        (Config(telemetry=Telemetry(log_dir="/dev/null")), "not a directory"),
    ],
)
def test_one_problem(config: Config, piece: str) -> None:
    (problem,) = check(config)
    assert piece in problem


def test_tls_files_go_together_and_exist(tmp_path: Path) -> None:
    (tmp_path / "cert").touch()
    half = Config(listen=Listen(tls_cert_path=str(tmp_path / "cert")))
    assert check(half) == ["--tls-cert-path and --tls-key-path go together; only one of them is given"]
    gone = replace(half, listen=replace(half.listen, tls_key_path=str(tmp_path / "key")))
    assert check(gone) == [f"--tls-key-path: there is no file {tmp_path / 'key'}"]
    client = Config(upstream=Upstream(client_key_path=str(tmp_path / "cert")))
    assert check(client) == [
        "--client-cert-path and --client-key-path go together; only one of them is given"
    ]


def test_two_keys_of_one_tenant_are_fine() -> None:
    assert check(Config(auth=Auth(tenant_api_key=(TenantKey("a", "k"), TenantKey("a", "l"))))) == []


def test_free_ports_do_not_collide() -> None:
    config = Config(listen=Listen(port=0, health_check_port=0), telemetry=Telemetry(prometheus_port=0))
    assert check(config) == []
