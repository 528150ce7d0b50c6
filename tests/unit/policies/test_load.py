"""The score of a worker by its report, and the lightest of several."""

from collections import Counter
from typing import Any

import pytest

from smg.policies.load import ExpectedWait, in_flight, lightest
from tests.unit.policies.fleet import dice, fleet, report

SCORE = ExpectedWait(0.15, 2000.0, 1024)


@pytest.mark.parametrize(
    ("said", "sent", "score"),
    [
        ({"waiting_tokens": 4000.0, "throughput": 1000.0}, 0, 4.0),
        ({"waiting_tokens": 0.0, "waiting_requests": 9}, 0, 0.0),
        ({"waiting_requests": 2}, 0, 2 * 1024 / 2000),
        ({"waiting_requests": 2}, 3, 5 * 1024 / 2000),
        ({"token_usage": 0.5}, 0, 0.15),
        ({"token_usage": 0.9, "waiting_tokens": 2000.0}, 0, 1 + 0.15 * 9),
    ],
)
def test_score_of_a_report(said: dict[str, Any], sent: int, score: float) -> None:
    (worker,) = fleet(1, loads=[50])
    worker.report, worker.sent_since_report = report(**said), sent
    assert SCORE(worker) == pytest.approx(score)


def test_without_a_report_the_requests_in_flight_decide() -> None:
    light, heavy = fleet(2, loads=[1, 2])
    assert SCORE(light) < SCORE(heavy)


def test_a_full_cache_has_a_score() -> None:
    (worker,) = fleet(1)
    worker.report = report(token_usage=1.0)
    assert SCORE(worker) == pytest.approx(0.15 * 999)


def test_equals_share_and_the_lightest_wins() -> None:
    workers, rng = fleet(4, loads=[2, 1, 1, 1]), dice()
    counts = Counter(lightest(workers, in_flight, rng) for _ in range(900))
    assert set(counts) == set(workers[1:])
    assert min(counts.values()) > 230
