"""Rows, their sums and their limits, and the whole text of a scrape."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from smg.telemetry import exchanges, metrics
from smg.telemetry.exchanges import Kind, Row, error_type
from smg.telemetry.families import FAMILIES
from smg.telemetry.metrics import Metrics

CHAT = "/v1/chat/completions"


def ended(
    counted: Metrics, worker: str, model: str, status: int = 200, code: str = "", path: str = CHAT
) -> Row:
    row = counted.exchanges.rows.get((path, worker, model))
    row = row or counted.exchanges.add(path, "chat", worker, model, Kind())
    row.count((status, code, False, False))
    row.durations[3] += 1
    row.durations[-1] += 0.009
    return row


def series(counted: Metrics) -> dict[str, float]:
    """Every sample as `name{label="value",…}`, in the order of its labels in the text."""
    lines = counted.render().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line[0] != "#"}


def test_one_row_is_seen_from_all_sides() -> None:
    counted = Metrics()
    counted.exchanges.live = lambda: {"http://w"}
    counted.policy = "round_robin"
    ended(counted, "http://w", "m")
    ended(counted, "http://w", "m").count_retried(503, "")
    ended(counted, "http://w", "m", 500, "internal_error")
    ended(counted, "", "other", 404, "model_not_found")
    ended(counted, "", "", 400, "json_parse_error")
    found = series(counted)
    assert found['smg_http_requests_total{method="POST",path="/v1/chat/completions"}'] == 5
    path = 'path="/v1/chat/completions"'
    assert found[f'smg_http_responses_total{{{path},status_code="404",error_code="model_not_found"}}'] == 1
    assert found['smg_worker_requests_total{worker="http://w",model="m"}'] == 4
    selection = 'worker_type="regular",connection_mode="http",model="m",policy="round_robin"'
    assert found[f"smg_worker_selection_total{{{selection}}}"] == 4
    router = 'router_type="http",backend_type="regular",connection_mode="http"'
    endpoint = f'{router},model="m",endpoint="chat"'
    assert found[f'smg_router_requests_total{{{endpoint},streaming="false"}}'] == 3
    assert found[f'smg_router_request_errors_total{{{endpoint},error_type="internal_error"}}'] == 1
    assert found[f"smg_router_request_duration_seconds_count{{{endpoint}}}"] == 3
    other = f'{router},model="other",endpoint="chat"'
    assert found[f'smg_router_request_errors_total{{{other},error_type="no_workers"}}'] == 1
    upstream = 'smg_router_upstream_responses_total{router_type="http",status_code="503",error_code=""}'
    assert found[upstream] == 1
    assert found['smg_router_request_body_path_total{path="buffered",reason="retryable"}'] == 3


def test_every_histogram_is_whole() -> None:
    counted = Metrics()
    ended(counted, "http://w", "m")
    counted.backoffs.add(("1",), 0.05)
    counted.route_durations.add(("GET", "/workers"), 0.001)
    for family in parsed(counted.render().decode()):
        if family.type == "histogram":
            last: dict[str, float] = {}
            for sample in family.samples:
                labels = str(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
                if sample.name.endswith("_bucket"):
                    assert sample.value >= last.get(labels, 0)
                    last[labels] = sample.value
                elif sample.name.endswith("_count"):
                    assert sample.value == last[labels]


def test_a_worker_that_is_gone_leaves_the_sums() -> None:
    counted = Metrics()
    live = {"http://a", "http://b"}
    counted.exchanges.live = lambda: live
    for worker in ("http://a", "http://b", "http://a"):
        ended(counted, worker, "m")
    before = series(counted)
    live.remove("http://a")
    after = series(counted)
    assert 'smg_worker_requests_total{worker="http://a",model="m"}' not in after
    of_workers = "smg_worker_requests_total"
    rest = {name: value for name, value in before.items() if not name.startswith(of_workers)}
    assert {name: after[name] for name in rest} == rest
    live.remove("http://b")
    final = series(counted)
    assert {name: final[name] for name in rest} == rest
    assert len(counted.exchanges.rows) == 1


def test_rows_and_outcomes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MAX_ROWS", 5)
    counted = Metrics()
    workers = [f"http://{i}" for i in range(20)]
    counted.exchanges.live = lambda: workers
    for worker in workers:
        ended(counted, worker, "m")
    assert len(counted.exchanges.rows) == 6
    row = ended(counted, "http://0", "m")
    for status in range(100, 600):
        row.count((status, "", False, False))
    assert len(row.counts) <= exchanges.MAX_OUTCOMES + 5
    assert sum(row.counts.values()) == 502
    assert series(counted)['smg_http_requests_total{method="POST",path="/v1/chat/completions"}'] == 521


def test_label_sets_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_LABEL_SETS", 3)
    counter, histogram = metrics.Counter(), metrics.Histogram((1,))
    for i in range(10):
        counter.add((str(i),))
        histogram.add((str(i),), 0.5)
    assert len(counter.values) == len(histogram.values) == 4
    assert counter.values[("other",)] == histogram.values[("other",)][0] == 7


def test_what_is_plugged_is_shown_with_its_type() -> None:
    counted = Metrics()
    threads = []
    counted.plug("smg_admission_inflight", lambda: [((), 3)])
    counted.plug_slow("process_open_fds", lambda: threads.append(threading.current_thread()) or [((), 9)])
    counted.plug_rows("smg_cache_aware_match_ratio", (0.5,), lambda: [((), [1, 2, 2.5])])
    found = {family.name: family for family in parsed(counted.render().decode())}
    assert found["smg_admission_inflight"].type == "gauge"
    assert found["smg_admission_inflight"].samples[0].value == 3
    assert found["process_open_fds"].samples[0].value == 9
    assert found["smg_cache_aware_match_ratio"].samples[-1].value == 3
    assert threads


def test_a_name_that_is_not_in_the_table_cannot_be_plugged() -> None:
    with pytest.raises(KeyError):
        Metrics().plug("smg_nothing_total", list)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (200, "", None),
        (200, "stream_error", "stream_error"),
        (400, "", "validation_error"),
        (404, "model_not_found", "no_workers"),
        (429, "", "rate_limited"),
        (499, "client_closed_request", "client_closed"),
        (500, "internal_error", "internal_error"),
        (502, "call_upstream_connection_failed", "backend_error"),
        (503, "no_available_workers", "no_workers"),
        (504, "call_upstream_timeout", "timeout"),
    ],
)
def test_sorts_of_failure(status: int, code: str, kind: str | None) -> None:
    assert error_type(status, code) == kind


def test_families_are_shown_in_the_order_of_the_table() -> None:
    counted = Metrics()
    ended(counted, "http://w", "m")
    names = [line.split()[2] for line in counted.render().decode().splitlines() if line.startswith("# TYPE")]
    order = [family.name for family in FAMILIES]
    assert names == sorted(names, key=order.index)
