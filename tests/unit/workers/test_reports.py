"""Load reports: real-looking and broken ones."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.workers.reports import report_of, rows_of_loads, rows_of_metrics, rows_of_old_load
from smg.workers.worker import LoadReport
from tests.unit.workers.test_load import RANK, VLLM, loads


def read_loads(body: bytes, now: float) -> LoadReport | None:
    return report_of(rows_of_loads(body), now)


def read_old_load(body: bytes, now: float) -> LoadReport | None:
    return report_of(rows_of_old_load(body), now)


def read_metrics(body: bytes, now: float) -> LoadReport | None:
    return report_of(rows_of_metrics(body), now)


def test_loads_of_one_rank() -> None:
    assert read_loads(loads(RANK), 5.0) == LoadReport(5.0, 3, 2, 900.0, 0.25, 1200.5)


def test_loads_of_ranks_are_added_up() -> None:
    other = RANK | {"token_usage": 0.75, "num_waiting_uncached_tokens": 100}
    assert read_loads(loads(RANK, other), 5.0) == LoadReport(5.0, 6, 4, 1000.0, 0.5, 2401.0)


def test_tokens_that_one_rank_does_not_tell_are_unknown() -> None:
    report = read_loads(loads(RANK, {"num_waiting_reqs": 1}), 5.0)
    assert report is not None
    assert report.waiting_tokens is None
    assert report.waiting_requests == 3


def test_old_load() -> None:
    body = b'[{"dp_rank":0,"num_reqs":5,"num_waiting_reqs":2,"num_tokens":100},{"num_reqs":1}]'
    assert read_old_load(body, 5.0) == LoadReport(5.0, 4, 2)
    assert read_old_load(b'[{"num_reqs":1,"num_waiting_reqs":2}]', 5.0) == LoadReport(5.0, 0, 2)


def test_metrics() -> None:
    assert read_metrics(VLLM, 5.0) == LoadReport(5.0, 3, 2, None, 0.5)


def test_metrics_of_two_engines() -> None:
    body = VLLM + VLLM.replace(b'"0"', b'"1"').replace(b"} 0.5", b"} 0.7")
    assert read_metrics(body, 5.0) == LoadReport(5.0, 6, 4, None, 0.6)


def test_metrics_with_time_stamps_and_without_labels() -> None:
    body = b'vllm:num_requests_running 3 1700000000000\nvllm:num_requests_waiting{a="b"} 2 1700000000000\n'
    assert read_metrics(body, 5.0) == LoadReport(5.0, 3, 2)


@pytest.mark.parametrize("value", [b"NaN", b"+Inf", b"-1", b"1e400", b"x", b"", b"1e99"])
def test_samples_that_are_no_count_are_ignored(value: bytes) -> None:
    line = b"vllm:num_requests_running " + value
    assert read_metrics(line, 5.0) is None
    assert read_metrics(line + b"\n" + VLLM, 5.0) == read_metrics(VLLM, 5.0)


@pytest.mark.parametrize(
    "value", ["1e400", "1" + "0" * 400, "-5", "true", '"3"', "null", "[1]", "{}", "1e99"]
)
def test_numbers_that_are_no_count_are_ignored(value: str) -> None:
    body = f'[{{"num_running_reqs":{value},"num_reqs":{value},"num_waiting_reqs":1}}]'
    for report in (
        read_loads(b'{"loads":' + body.encode() + b"}", 5.0),
        read_old_load(body.encode(), 5.0),
    ):
        assert report is None or (report.running_requests, report.waiting_requests) == (0, 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b'{"loads":[]}', b'{"loads":{}}', b'{"loads":[1]}', b"\xff", b"[" * 100_000],
)
@pytest.mark.parametrize("read", [read_loads, read_old_load, read_metrics])
def test_broken_bodies_are_no_report(read: Callable[..., LoadReport | None], body: bytes) -> None:
    assert read(body, 5.0) is None


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.floats() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
    | st.floats().map(lambda v: b'vllm:num_requests_running{a="b"} %r' % v)
)
def test_any_body_is_survived(body: bytes) -> None:
    for read in (read_loads, read_old_load, read_metrics):
        read(body, 5.0)


def test_rows_keep_what_was_reported() -> None:
    (row,) = rows_of_loads(loads(RANK | {"dp_rank": 3, "max_running_requests": 16, "utilization": "x"}))
    assert row == {
        "dp_rank": 3,
        "num_running_reqs": 3,
        "num_waiting_reqs": 2,
        "num_waiting_uncached_tokens": 900,
        "token_usage": 0.25,
        "gen_throughput": 1200.5,
        "cache_hit_rate": 0.5,
        "max_running_requests": 16,
    }


def test_ranks_are_told_apart_by_number_or_place() -> None:
    body = b'[{"dp_rank":4,"num_reqs":5},{"num_reqs":1},{"dp_rank":"x"}]'
    assert [row["dp_rank"] for row in rows_of_old_load(body)] == [4, 1, 2]
    vllm = VLLM.replace(b'"0"', b'"7"') + b'vllm:num_requests_running{engine="x"} 1'
    assert [row["dp_rank"] for row in rows_of_metrics(vllm)] == [7, 1]
