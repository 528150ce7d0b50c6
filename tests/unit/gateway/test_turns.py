"""The queue of requests that wait for room: in order, bounded, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

import pytest

from smg import errors
from smg.errors import GatewayError
from smg.gateway.turns import Turns
from tests.waiting import turns

LATE_S = 30.0


class Room:
    """A number of free places; who goes takes one at once."""

    def __init__(self, places: int, **options: float) -> None:
        self.places = places
        self.went: list[str] = []
        late = lambda: errors.pd_prefill_queue_timeout(LATE_S)  # noqa: E731
        self.turns = Turns(3, LATE_S, errors.pd_prefill_queue_full, late, **options)

    async def enter(self, name: str, may_go: Callable[[], bool] | None = None) -> None:
        await self.turns.wait(may_go or (lambda: self.places > 0))
        self.places -= 1
        assert self.places >= 0
        self.went.append(name)

    def leave(self) -> None:
        self.places += 1
        self.turns.freed()


def queue(room: Room, *names: str) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(room.enter(name)) for name in names]


async def settle() -> None:
    await turns(10)


async def test_nobody_waits_while_there_is_room() -> None:
    room = Room(2)
    await room.enter("a")
    await room.enter("b")
    assert room.went == ["a", "b"] and room.turns.waiting == 0


async def test_they_go_in_order_one_a_place() -> None:
    room = Room(0)
    tasks = queue(room, "a", "b", "c")
    await settle()
    assert not room.went and room.turns.waiting == 3
    room.leave()
    await settle()
    assert room.went == ["a"]
    room.leave()
    room.leave()
    await asyncio.gather(*tasks)
    assert room.went == ["a", "b", "c"] and room.turns.waiting == 0


async def test_a_newcomer_does_not_overtake() -> None:
    room = Room(0)
    tasks = queue(room, "a")
    await settle()
    room.leave()
    tasks += queue(room, "b")
    await settle()
    assert room.went == ["a"]
    room.leave()
    await asyncio.gather(*tasks)
    assert room.went == ["a", "b"]


async def test_who_cannot_go_yet_is_passed_by() -> None:
    room = Room(1)
    blocked = asyncio.create_task(room.enter("a", lambda: False))
    await settle()
    await asyncio.wait_for(room.enter("b"), 5)
    assert room.went == ["b"]
    blocked.cancel()
    await settle()
    assert room.turns.waiting == 0


async def test_the_queue_is_bounded() -> None:
    room = Room(0)
    tasks = queue(room, "a", "b", "c")
    await settle()
    with pytest.raises(GatewayError) as refused:
        await room.enter("d")
    assert refused.value.code == "pd_prefill_queue_full"
    for task in tasks:
        task.cancel()
    await settle()
    assert room.turns.waiting == 0


async def test_who_goes_away_passes_his_turn_on() -> None:
    room = Room(0)
    first, second = queue(room, "a", "b")
    await settle()
    room.leave()
    first.cancel()
    await second
    assert room.went == ["b"]


async def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(0)
    room.turns._timeout_s = 0.001
    with pytest.raises(GatewayError) as late:
        await room.enter("a")
    assert late.value.code == "pd_prefill_queue_timeout" and room.turns.waiting == 0


async def test_no_time_to_wait_is_a_refusal() -> None:
    room = Room(0)
    room.turns._timeout_s = 0
    with pytest.raises(GatewayError) as refused:
        await room.enter("a")
    assert refused.value.code == "pd_prefill_queue_full"


async def test_room_that_nobody_tells_of_is_found() -> None:
    room = Room(0, look_s=0.001)
    [task] = queue(room, "a")
    await settle()
    room.places += 1
    await asyncio.wait_for(task, 5)
    assert room.went == ["a"]


async def test_nobody_overtakes_when_room_came_unheard() -> None:
    room = Room(0)
    first = queue(room, "first")
    await settle()
    room.places = 2
    await asyncio.gather(*first, *queue(room, "second"))
    assert room.went == ["first", "second"]


async def test_a_kind_is_asked_once() -> None:
    """Thousands may wait for one model, and room is looked for whenever a request ends."""
    turns = Turns(100, LATE_S, errors.pd_prefill_queue_full, errors.pd_prefill_queue_full)
    asked: list[str] = []

    def may_go(kind: str) -> bool:
        asked.append(kind)
        return False

    kinds = ["a", "b"] * 20
    waiting = [asyncio.create_task(turns.wait(functools.partial(may_go, one), one)) for one in kinds]
    await settle()
    asked.clear()
    turns.freed()
    assert asked == ["a", "b"]
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
