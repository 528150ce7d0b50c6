"""The short list of what failed last."""

from __future__ import annotations

from smg.telemetry.failures import MOST, Failures


def test_the_newest_come_first_and_the_oldest_go() -> None:
    failures = Failures()
    for number in range(MOST + 5):
        failures.add("/v1/chat/completions", 500, "internal_error", "m", "http://w", str(number))
    latest = failures.latest()
    assert (len(latest), failures.total) == (MOST, MOST + 5)
    assert [one.request_id for one in latest[:2]] == [str(MOST + 4), str(MOST + 3)]


def test_names_of_clients_are_cut() -> None:
    failures = Failures()
    failures.add("/v1/chat/completions", 404, "model_not_found", "m" * 10_000, "", "i" * 10_000)
    [one] = failures.latest()
    assert len(one.model) == len(one.request_id) == 128
