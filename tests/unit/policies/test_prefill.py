"""The accounts of a worker's queue, and what is learnt from its answers."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.policies.prefill import Prefill


def bytes_missing(count: int) -> array[int]:
    """By one assumption only."""
    return array("i", [count])


# What happens, to which prompt, of which size, and how the clock moves: also back.
steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "first", "drop"]),
        st.integers(0, 6),
        st.integers(0, 1 << 24),
        st.floats(-5, 50, allow_nan=False),
    ),
    max_size=60,
)


@given(steps)
def test_accounts(taken: list[tuple[str, int, int, float]]) -> None:
    prefill, now, waiting = Prefill(), 100.0, set[int]()
    for what, number, missing, passed in taken:
        now += passed
        if what == "send" and number not in waiting:
            prefill.send(number, bytes_missing(missing), now)
            waiting.add(number)
        elif what == "first":
            prefill.first_event(number, now)
            waiting.discard(number)
        elif what == "drop":
            prefill.drop(number)
            waiting.discard(number)
        assert len(prefill) == len(waiting)
        assert prefill.fixed_s >= 0 < prefill.per_byte_s
        assert 0 <= prefill.wait_s(now) < float("inf")
        assert prefill.wait_s(now - 1000) >= 0
        if not waiting:
            assert prefill.wait_s(now) == 0
    for number in waiting:
        prefill.drop(number)
    prefill.send(99, bytes_missing(0), now)
    assert prefill.wait_s(now) == prefill.fixed_s  # nothing is missing of those that went


def test_a_straight_line_is_learnt() -> None:
    prefill, now = Prefill(), 0.0
    for number in range(100):
        missing = 1000 * (number % 7)
        prefill.send(number, bytes_missing(missing), now)
        now += 0.02 + 1e-5 * missing
        prefill.first_event(number, now)
    assert prefill.fixed_s == pytest.approx(0.02)
    assert prefill.per_byte_s == pytest.approx(1e-5)
    assert prefill.seen == 100


def test_time_in_the_queue_is_not_the_prompts_own() -> None:
    prefill = Prefill()
    for number in range(10):
        prefill.send(number, bytes_missing(1000), 0.0)
    assert prefill.wait_s(0.0) == pytest.approx(10 * prefill.cost_s(1000))
    for number in range(10):
        prefill.first_event(number, 1.0 + number)
    assert prefill.cost_s(1000) == pytest.approx(1.0)


def test_what_the_first_in_the_queue_has_had_already_counts() -> None:
    prefill = Prefill()
    prefill.assume(1.0, 1e-3)
    prefill.send(0, bytes_missing(1000), 0.0)
    prefill.send(1, bytes_missing(2000), 0.0)
    assert prefill.wait_s(0.0) == pytest.approx(5.0)
    assert prefill.wait_s(1.5) == pytest.approx(3.5)
    assert prefill.wait_s(100.0) == pytest.approx(3.0)


def test_what_was_learnt_long_ago_is_doubted_when_idle() -> None:
    prefill = Prefill()
    assert not prefill.is_known(0.0)
    prefill.send(0, bytes_missing(10), 0.0)
    prefill.first_event(0, 1.0)
    assert prefill.is_known(1.0)
    assert not prefill.is_known(1000.0)
    prefill.send(1, bytes_missing(10), 1000.0)
    assert prefill.is_known(1000.0)
