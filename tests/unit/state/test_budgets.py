"""What becomes of a shared reservation whose request has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from smg.admission.budgets import LocalBudgets
from smg.admission.limits import Limit
from smg.state.budgets import SharedBudgets
from tests.waiting import turns

LIMIT = Limit("auth:red", tokens=100, requests=10, is_listed=True)


class Answering:
    """A link whose answers a test gives; `told` is what it was told without being asked."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Any]] = []
        self.told: list[Sequence[Any]] = []

    def ask(self, script: Any, keys: Any, arguments: Any, late: Any) -> asyncio.Future[Any]:
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def tell(self, script: Any, keys: Any, arguments: Sequence[Any], on_answer: Any = None) -> None:
        self.told.append(arguments)


@pytest.mark.parametrize(("answer", "given_back"), [("0", 1), ("2.5", 0), ("-1", 0)])
async def test_who_leaves_in_the_turn_of_the_answer_gets_back_what_was_taken(
    answer: str, given_back: int
) -> None:
    link = Answering()
    budgets = SharedBudgets(link, LocalBudgets())  # type: ignore[arg-type]
    taking = asyncio.ensure_future(budgets.take((LIMIT,), 7))  # type: ignore[arg-type]
    await turns()
    link.asked[0].set_result(answer)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert [told[:2] for told in link.told] == [[7, 1]] * given_back


async def test_who_leaves_when_the_link_fails_has_taken_nothing() -> None:
    link = Answering()
    budgets = SharedBudgets(link, LocalBudgets())  # type: ignore[arg-type]
    taking = asyncio.ensure_future(budgets.take((LIMIT,), 7))  # type: ignore[arg-type]
    await turns()
    link.asked[0].set_exception(RuntimeError("gone"))
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert link.told == []
