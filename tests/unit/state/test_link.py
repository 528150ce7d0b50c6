"""The link over a scripted connection: who gets an answer, who is told in vain, when it goes down and up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from smg.state.link import SLOW_IN_A_ROW, Link, LinkError, Script
from tests.waiting import turns, until

ECHO = Script("return ARGV[1]")


class Redis:
    """Answers a call by its last argument while the gate is open; raises `fault`, or answers `refusal`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None
        self.refusal: Exception | None = None
        self.batches: list[int] = []
        self.opened = 0
        self.closed = 0

    def connect(self) -> Redis:
        self.opened += 1
        return self

    async def run(self, calls: Sequence[tuple[Script, Sequence[str], Sequence[Any]]]) -> list[Any]:
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.batches.append(len(calls))
        return [self.refusal or (one[2][-1] if one[2] else b"OK") for one in calls]

    async def close(self) -> None:
        self.closed += 1


@asynccontextmanager
async def linked(redis: Redis, bound_s: float = 20.0) -> AsyncIterator[Link]:
    link = Link(redis.connect, "x", bound_s, pause_s=0.001)
    task = asyncio.create_task(link.run())
    await until(lambda: link.is_up)
    try:
        yield link
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not link.is_up
        assert redis.opened == redis.closed


def unwanted(answer: Any) -> None:
    raise AssertionError(answer)


def ask(link: Link, word: str, late: Any = unwanted) -> asyncio.Future[Any]:
    asked = link.ask(ECHO, [], [word], late)
    assert asked is not None
    return asked


async def test_answers_go_to_who_asked() -> None:
    redis = Redis()
    async with linked(redis) as link:
        assert await asyncio.gather(*(ask(link, str(n)) for n in range(300))) == [str(n) for n in range(300)]
        assert redis.batches == [1, 256, 44]
        assert (link.answered, link.failed, link.dropped) == (300, 0, 0)


async def test_an_answer_that_is_late_is_no_longer_waited_for() -> None:
    redis = Redis()
    async with linked(redis) as link:
        redis.gate.clear()
        first = ask(link, "first")
        await turns()
        link.bound_s = 0.001
        with pytest.raises(LinkError):
            await ask(link, "second")
        redis.gate.set()
        assert await first == "first"
        assert link.failed == 1


async def test_the_answer_to_who_has_left() -> None:
    redis = Redis()
    async with linked(redis) as link:
        told: list[Any] = []
        ask(link, "left", told.append).cancel()
        link.tell(ECHO, [], ["background"], told.append)
        await until(lambda: len(told) == 2)
        assert told == ["left", "background"]


async def test_slow_answers_bring_it_down_and_a_good_one_up() -> None:
    redis = Redis()
    async with linked(redis, 0.01) as link:
        redis.gate.clear()
        failures = 0
        while link.is_up:
            with pytest.raises(LinkError):
                await ask(link, "x")
            failures += 1
        assert failures >= SLOW_IN_A_ROW
        assert link.ask(ECHO, [], ["x"], unwanted) is None
        link.bound_s = 20.0
        redis.gate.set()
        await until(lambda: link.is_up)
        assert await ask(link, "again") == "again"


@pytest.mark.parametrize("where", ["fault", "refusal"])
async def test_errors_bring_it_down_for_all_who_wait(where: str) -> None:
    redis = Redis()
    async with linked(redis) as link:
        asked = [ask(link, str(n)) for n in range(300)]
        setattr(redis, where, ConnectionResetError())
        assert {type(one) for one in await asyncio.gather(*asked, return_exceptions=True)} == {LinkError}
        await until(lambda: not link.is_up)
        setattr(redis, where, None)
        await until(lambda: link.is_up)
        assert await ask(link, "again") == "again"


async def test_what_takes_no_scripts_is_never_up() -> None:
    redis = Redis()
    redis.refusal = PermissionError("NOPERM")
    link = Link(redis.connect, "x", pause_s=0.001)
    task = asyncio.create_task(link.run())
    await until(lambda: redis.opened > 3)
    assert not link.is_up
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
