"""How many ranks an engine has, and which workers are to be added for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.workers.ranks import MAX_RANKS, missing, rank_of, size_of
from smg.workers.registry import Registry
from smg.workers.worker import Rank, Worker
from tests.unit.policies.fleet import worker


def ranked(rank: Rank | None = None, **labels: str) -> Worker:
    one = worker(1)
    one.labels = labels
    if rank is not None:
        Registry().call_rank(one, rank)
    return one


@pytest.mark.parametrize(
    ("label", "size"),
    [("1", 1), ("8", 8), ("", 1), ("x", 1), ("-2", 1), ("2.0", 1), ("\u00b2", 1), ("0", 1), ("9" * 30, 1)],
)
def test_the_label(label: str, size: int) -> None:
    assert size_of(ranked(dp_size=label)) == size


def test_without_the_label() -> None:
    assert size_of(ranked()) == 1


@given(st.text(max_size=12))
def test_any_label_is_survived(label: str) -> None:
    assert 1 <= size_of(ranked(dp_size=label)) <= MAX_RANKS


@pytest.mark.parametrize(
    ("rank", "size", "expected"),
    [
        (None, 1, None),
        (None, 3, Rank(0, 3)),
        (Rank(1, 3), 2, Rank(1, 2)),
        (Rank(0, 3), 1, Rank(0, 1)),
    ],
)
def test_the_rank(rank: Rank | None, size: int, expected: Rank | None) -> None:
    assert rank_of(ranked(rank), size) == expected


@pytest.mark.parametrize(
    ("rank", "size", "there", "added"),
    [
        (None, 3, [], [1, 2]),
        (Rank(0, 2), 4, [0, 1], [2, 3]),
        (Rank(0, 2), 4, [0, 3], [2]),
        (Rank(0, 2), 2, [0], []),
        (Rank(0, 2), 1, [0], []),
        (Rank(1, 2), 4, [1], []),
    ],
)
def test_who_is_added(rank: Rank | None, size: int, there: list[int], added: list[int]) -> None:
    assert missing(ranked(rank), size, [ranked(Rank(number, 9)) for number in there]) == added
