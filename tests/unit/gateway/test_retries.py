"""The budget of retries: a storm stays small, single failures are always tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.model import Retry
from smg.gateway.retries import FREE_PER_S, MEMORY_S, SHARE, Pauses, RetryBudget

BURST = FREE_PER_S * MEMORY_S


def test_low_traffic_is_always_retried() -> None:
    budget, now = RetryBudget(0.0), 0.0
    for _ in range(1000):
        now += 0.5
        budget.earn(now)
        assert all(budget.try_spend(now) for _ in range(4))
    assert (budget.denied, budget.spent) == (0, 4000)


@pytest.mark.parametrize("rate", [1000, 10_000])
def test_a_storm_costs_a_fifth_more(rate: int) -> None:
    """Every attempt fails and wants four more, for a minute after an hour's calm."""
    budget, now, seconds = RetryBudget(0.0), 3600.0, 60
    for _ in range(rate):  # the end of the hour counts, the rest has faded
        budget.earn(now)
    for _ in range(rate * seconds):
        now += 1 / rate
        budget.earn(now)
        for _ in range(4):
            if not budget.try_spend(now):
                break
    firsts = rate * (seconds + 1)
    assert budget.spent <= SHARE * firsts + FREE_PER_S * seconds + BURST
    assert budget.spent >= 0.9 * SHARE * rate * seconds
    assert budget.denied > 0


def test_calm_hours_do_not_pay_for_a_storm() -> None:
    budget, rate = RetryBudget(0.0), 100
    for number in range(rate * 600):
        budget.earn(number / rate)
    granted = 0
    while budget.try_spend(600.0):
        granted += 1
    assert granted <= SHARE * rate * MEMORY_S + BURST + 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["first", "retry"]), st.floats(0, 5)),
        max_size=300,
    )
)
def test_no_more_is_spent_than_was_earned_and_free(steps: list[tuple[str, float]]) -> None:
    budget, now, firsts = RetryBudget(0.0), 0.0, 0
    for what, seconds in steps:
        now += seconds
        if what == "first":
            firsts += 1
            budget.earn(now)
        else:
            budget.try_spend(now)
    assert budget.spent <= SHARE * firsts + FREE_PER_S * now + BURST
    assert budget.spent + budget.denied == sum(what == "retry" for what, _ in steps)


def test_pauses_grow_to_their_maximum() -> None:
    pauses = Pauses(Retry(retry_initial_backoff_ms=100, retry_max_backoff_ms=400, retry_jitter_factor=0))
    assert [pauses.after_s(number) for number in (1, 2, 3, 9)] == pytest.approx([0.1, 0.15, 0.225, 0.4])
