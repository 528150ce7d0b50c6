"""A budget of tokens and requests against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast.budget import Budget

TOKENS, REQUESTS = 6000, 60
steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "give", "look"]),
        st.integers(-2000, 9000),
        st.integers(-3000, 90_000),
    ),
    max_size=40,
)


class Model:
    """The same with exact numbers; times in milliseconds."""

    def __init__(self) -> None:
        self.tokens, self.requests, self.at = Fraction(TOKENS), Fraction(REQUESTS), 0

    def refill(self, now: int) -> None:
        minutes = Fraction(max(now - self.at, 0), 60_000)
        self.tokens = min(Fraction(TOKENS), self.tokens + minutes * TOKENS)
        self.requests = min(Fraction(REQUESTS), self.requests + minutes * REQUESTS)
        self.at = now

    def wait(self, tokens: int) -> float:
        if tokens <= self.tokens and self.requests >= 1:
            return 0.0
        if tokens > TOKENS:
            return math.inf
        return float(max((tokens - self.tokens) / TOKENS, (1 - self.requests) / REQUESTS) * 60)


@settings(max_examples=200)
@given(steps)
def test_histories(taken: list[tuple[str, int, int]]) -> None:
    """Clocks also go back."""
    budget, model, now = Budget(TOKENS, REQUESTS, 0.0, 1.0), Model(), 0
    for what, tokens, passed in taken:
        now += passed
        model.refill(now)
        if what == "give":
            budget.give(now / 1000, tokens, 1)
            model.tokens = min(Fraction(TOKENS), model.tokens + tokens)
            model.requests = min(Fraction(REQUESTS), model.requests + 1)
        else:
            tokens = abs(tokens)
            expected = model.wait(tokens)
            ask = budget.take if what == "take" else budget.wait_s
            assert ask(now / 1000, tokens) == pytest.approx(expected, rel=1e-6, abs=1e-4)
            if what == "take" and expected == 0:
                model.tokens -= tokens
                model.requests -= 1
        assert budget.tokens == pytest.approx(float(model.tokens), rel=1e-6, abs=1e-3)
        assert budget.requests == pytest.approx(float(model.requests), rel=1e-6, abs=1e-3)
        assert budget.share(now / 1000) <= 1


def test_who_comes_back_when_told_to_is_served() -> None:
    budget, now = Budget(7, 3, 0.0, 0.0), 0.0
    for _ in range(50):
        wait_s = budget.take(now, 2)
        if wait_s > 0:
            now += wait_s
            assert budget.take(now, 2) == 0


@pytest.mark.parametrize(("tokens", "requests"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_limits_that_are_none(tokens: float, requests: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Budget(tokens, requests, 0.0, 1.0)
