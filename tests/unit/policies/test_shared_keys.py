"""Sticky keys that other gateways know as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from smg.policies.manual import RENEWED, Pins
from smg.workers.worker import Worker
from tests.clock import Clock
from tests.unit.policies.fleet import ask, fleet

IDLE_S = 100.0


class Others:
    """What the other gateways have chosen; `told` is what they hear of us."""

    def __init__(self) -> None:
        self.chosen: dict[bytes, str] = {}
        self.told: list[tuple[bytes, str, bool]] = []
        self.asked = 0
        self.is_away = False

    def find(self, key: bytes) -> Awaitable[str | None] | None:
        self.asked += 1
        if self.is_away:
            return None
        found: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        found.set_result(self.chosen.get(key))
        return found

    def claim(self, key: bytes, worker: str, others: Callable[[str], None] | None = None) -> None:
        self.told.append((key, worker, others is not None))
        stands = self.chosen.get(key)
        if others is not None and stands is not None and stands != worker:
            others(stands)
        else:
            self.chosen[key] = worker


class Stage:
    def __init__(self) -> None:
        self.clock = Clock()
        self.others = Others()
        self.workers = fleet(3)
        self.pins = Pins(IDLE_S, self.clock, shared=self.others)

    async def place(self, key: bytes = b"k", among: Sequence[Worker] | None = None) -> Worker:
        """As the router does it; a new key goes to the last candidate."""
        asking: Any = ask()
        await self.pins.recall(key, asking)
        worker = self.pins.place(key, among or self.workers, asking, lambda workers, _: workers[-1])
        assert worker is not None
        asking.ticket.end(self.clock.now)
        return worker


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_new_key_is_told_once(stage: Stage) -> None:
    for _ in range(5):
        assert await stage.place() is stage.workers[2]
    assert stage.others.told == [(b"m\0k", stage.workers[2].url, True)]
    assert stage.others.asked == 1


async def test_a_key_that_another_gateway_has_placed(stage: Stage) -> None:
    stage.others.chosen[b"m\0k"] = stage.workers[0].url
    assert await stage.place() is stage.workers[0]
    assert await stage.place() is stage.workers[0]
    assert stage.others.told == []


async def test_a_worker_this_gateway_has_not_is_replaced(stage: Stage) -> None:
    stage.others.chosen[b"m\0k"] = "http://gone"
    assert await stage.place() is stage.workers[2]


async def test_the_first_of_two_choices_at_once_stands(stage: Stage) -> None:
    found = stage.others.find
    stage.others.find = lambda key: None  # type: ignore[method-assign, assignment]
    stage.others.chosen[b"m\0k"] = stage.workers[1].url
    assert await stage.place() is stage.workers[2]
    assert await stage.place() is stage.workers[1]
    stage.others.find = found  # type: ignore[method-assign]
    assert await stage.place() is stage.workers[1]


async def test_a_moved_key_is_told(stage: Stage) -> None:
    await stage.place()
    assert await stage.place(among=stage.workers[:2]) is stage.workers[1]
    assert stage.others.told[1:] == [(b"m\0k", stage.workers[1].url, False)]


async def test_a_key_in_use_is_renewed_now_and_then(stage: Stage) -> None:
    await stage.place()
    for _ in range(40):
        stage.clock.now += IDLE_S / 20
        await stage.place()
    renewed = stage.others.told[1:]
    assert renewed == [(b"m\0k", stage.workers[2].url, False)] * len(renewed)
    assert 2 * RENEWED - 3 <= len(renewed) <= 2 * RENEWED


async def test_an_idle_key_is_asked_for_again(stage: Stage) -> None:
    await stage.place()
    stage.clock.now += 2 * IDLE_S
    stage.others.chosen[b"m\0k"] = stage.workers[0].url
    assert await stage.place() is stage.workers[0]


async def test_while_the_others_are_away_keys_stay(stage: Stage) -> None:
    stage.others.is_away = True
    assert {await stage.place() for _ in range(5)} == {stage.workers[2]}
