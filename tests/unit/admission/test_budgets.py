"""Buckets and budgets: what is affordable, what is remembered, and that nobody gains by being forgotten."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.admission.bucket import Bucket
from smg.admission.budgets import LocalBudgets
from smg.admission.limits import Limit
from tests.clock import Clock

MINUTE = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limit(key: str, tokens: int = 60, requests: int = 60, listed: bool = False) -> Limit:
    return Limit(key, tokens, requests, is_listed=listed)


def test_a_bucket_begins_full_and_refills(clock: Clock) -> None:
    bucket = Bucket(60, 1, clock())
    assert bucket.take(60, clock()) == 0
    assert bucket.take(2, clock()) == 2
    clock.now += 1.5
    assert bucket.wait_s(2, clock()) == 0.5
    clock.now += 1000
    assert bucket.level(clock()) == 60
    assert bucket.take(61, clock()) == math.inf
    bucket.give(-100, clock())
    assert bucket.wait_s(0, clock()) == 40


@given(st.lists(st.floats(-100, 100), max_size=30))
def test_a_clock_that_goes_back_is_harmless(steps: list[float]) -> None:
    bucket, now = Bucket(10, 1, 0.0), 0.0
    for step in steps:
        now += step
        before = bucket.level(now - step)
        assert before <= bucket.level(now) <= min(10, before + max(step, 0) + 1e-6)
        bucket.take(3, now)


def test_all_or_nothing(clock: Clock) -> None:
    budgets = LocalBudgets(clock)
    own, rule = limit("a"), limit("a\nr", tokens=10)
    assert budgets.take((own, rule), 10) == 0
    assert budgets.take((own, rule), 5) == 30
    # The tenant's own budget was not touched by what its rule has refused.
    assert budgets.take((own,), 50) == 0
    assert budgets.take((own,), 1) == 1


def test_requests_and_tokens_both_count(clock: Clock) -> None:
    budgets = LocalBudgets(clock)
    assert budgets.take((limit("a", tokens=1000, requests=1),), 1) == 0
    assert budgets.take((limit("a", tokens=1000, requests=1),), 1) == MINUTE
    assert budgets.take((limit("b", tokens=20),), 21) == math.inf


def test_what_is_given_back_and_debts(clock: Clock) -> None:
    budgets = LocalBudgets(clock)
    a = (limit("a"),)
    budgets.take(a, 60)
    budgets.give_back(a, -60)
    assert budgets.take(a, 0) == 60
    budgets.give_back(a, 500, 1)
    assert budgets.take(a, 60) == 0


def test_the_fullest(clock: Clock) -> None:
    budgets = LocalBudgets(clock)
    for number in range(30):
        budgets.take((limit(f"t{number}"),), number)
    budgets.take((limit("listed\nrule", listed=True),), 60)
    shown = budgets.fullest()
    assert len(shown) == 20
    assert shown[0] == {"tenant": "listed", "rule": "rule", "used": 1.0}
    assert shown[1] == {"tenant": "t29", "rule": None, "used": round(29 / 60, 4)}


def test_strangers_are_bounded_and_listed_ones_are_not_forgotten(clock: Clock) -> None:
    budgets = LocalBudgets(clock, max_strangers=100)
    budgets.take((limit("known", listed=True),), 60)
    for number in range(1000):
        budgets.take((limit(f"s{number}"),), 1)
    assert len(budgets) == 101
    assert budgets.take((limit("known", listed=True),), 1) == 1


def test_nobody_gains_by_being_forgotten(clock: Clock) -> None:
    budgets = LocalBudgets(clock, max_strangers=10)
    assert budgets.take((limit("greedy"),), 60) == 0
    for number in range(100):
        budgets.take((limit(f"s{number}"),), 1)
    assert budgets.take((limit("greedy"),), 1) > 0
    clock.now += MINUTE
    assert budgets.take((limit("greedy"),), 60) == 0


def test_who_is_in_debt_is_remembered_longer(clock: Clock) -> None:
    budgets = LocalBudgets(clock, max_strangers=10)
    budgets.take((limit("debtor"),), 60)
    budgets.give_back((limit("debtor"),), -600)
    for number in range(200):
        clock.now += 1
        budgets.take((limit(f"s{number}"),), 1)
    assert budgets.take((limit("debtor"),), 1) == pytest.approx(401)


def test_nothing_but_debtors(clock: Clock) -> None:
    budgets = LocalBudgets(clock, max_strangers=4)
    for number in range(20):
        budgets.take((limit(f"d{number}"),), 0)
        budgets.give_back((limit(f"d{number}"),), -600)
    assert len(budgets) == 4


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30), st.floats(0, 5)), max_size=80))
def test_forgetting_never_lets_more_pass(steps: list[tuple[int, int, float]]) -> None:
    """A table for three lets nothing pass that one for all refuses."""
    clock = Clock()
    small, large = LocalBudgets(clock, max_strangers=3), LocalBudgets(clock)
    passed: dict[int, float] = {}
    for who, tokens, pause in steps:
        clock.now += pause
        own = (limit(f"t{who}"),)
        if small.take(own, tokens) == 0:
            # The full table is given what has passed, so that both have the same past.
            assert large.take(own, tokens) <= 1e-6 or math.isinf(tokens)
            passed[who] = passed.get(who, 0) + tokens
