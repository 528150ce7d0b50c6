"""Lines through what was seen, against the sums written out."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast.costs import Costs

FADE = 0.9
seen = st.lists(
    st.tuples(st.lists(st.integers(0, 100_000), min_size=3, max_size=3), st.floats(0, 100)),
    min_size=1,
    max_size=40,
)


def weighted(values: list[float], weights: list[float]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


@settings(max_examples=200)
@given(seen)
def test_lines_and_what_they_leave(observations: list[tuple[list[int], float]]) -> None:
    costs = Costs(3, FADE)
    for amounts, seconds in observations:
        costs.learn(array("i", amounts), seconds)
    assert costs.seen == len(observations)
    weights = [FADE ** (len(observations) - 1 - i) for i in range(len(observations))]
    ys = [seconds for _, seconds in observations]
    totals = array("d", [0.0] * 3)
    costs.add_unexplained(totals)
    square = weighted([y * y for y in ys], weights)
    for i in range(3):
        xs = [float(amounts[i]) for amounts, _ in observations]
        fixed, slope = costs.fit(i)
        assert fixed >= 0 and slope >= 0
        mean_x, mean_y = weighted(xs, weights), weighted(ys, weights)
        spread = weighted([(x - mean_x) ** 2 for x in xs], weights)
        shared = weighted([(x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)], weights)
        left = weighted([(y - mean_y) ** 2 for y in ys], weights)
        assert totals[i] >= 0
        if spread > 1:
            if shared > 0:
                left -= shared * shared / spread
            if square > 1e-6:
                assert totals[i] == pytest.approx(left * sum(weights) / square, rel=1e-3, abs=1e-5)
            steep = shared / spread
            if steep > 1e-9 and mean_y - steep * mean_x > 1e-6:
                assert slope == pytest.approx(steep, rel=1e-3)
                assert fixed == pytest.approx(mean_y - slope * mean_x, rel=1e-3, abs=1e-6)


def test_the_true_amount_leaves_the_least() -> None:
    costs, totals = Costs(3, 0.98), array("d", [0.0] * 3)
    for i in range(60):
        true = 1000 * (i % 7)
        costs.learn(array("i", [500 * (i % 5), true, 7000]), 0.02 + 1e-4 * true)
    costs.add_unexplained(totals)
    assert totals[1] < 1e-6 < totals[0] < totals[2]
    assert costs.fit(1) == (pytest.approx(0.02), pytest.approx(1e-4))


def test_nothing_seen_and_wrong_arguments() -> None:
    costs = Costs(2, 1.0)
    assert costs.fit(0) == (0.0, 0.0)
    totals = array("d", [1.0, 2.0])
    costs.add_unexplained(totals)
    assert list(totals) == [1.0, 2.0]
    with pytest.raises(ValueError, match="for each candidate"):
        costs.learn(array("i", [1]), 1.0)
    with pytest.raises(ValueError, match="for each candidate"):
        costs.add_unexplained(array("d", [1.0]))
    with pytest.raises(IndexError):
        costs.fit(2)
    for candidates, fade in ((0, 0.9), (2000, 0.9), (3, 0.0), (3, 1.5)):
        with pytest.raises(ValueError, match="candidates"):
            Costs(candidates, fade)
