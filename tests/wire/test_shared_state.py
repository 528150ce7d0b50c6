"""What several gateways share through Redis, also while it dies and comes back under load."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from smg.admission.budgets import LocalBudgets
from smg.admission.limits import Limit
from smg.config.specs import PrefillUrl, TenantKey, WorkerUrl
from smg.state.budgets import SharedBudgets
from smg.state.client import RedisConnection
from smg.state.link import BOUND_S, Link, LinkError, Script, shown
from smg.state.places import SharedPlaces
from tests.waiting import turns, until
from tests.wire.live_gateway import LiveGateway, running
from tests.wire.raw_client import BODY, chat, post
from tests.wire.redis_server import RedisServer, went
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker

LIMIT = Limit("auth:red", tokens=100, requests=1000, is_listed=True)
ECHO = Script("return ARGV[1]")
# On a machine that is busy with other tests an answer may take long.
PATIENT_S = 10.0


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    server = await RedisServer(tmp_path).start()
    yield server
    await server.kill()


@asynccontextmanager
async def linked(url: str, bound_s: float = PATIENT_S) -> AsyncIterator[Link]:
    link = Link(functools.partial(RedisConnection, url), shown(url), bound_s, pause_s=0.01)
    task = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def unwanted(answer: Any) -> None:
    raise AssertionError(answer)


async def paid(budgets: SharedBudgets[Limit], tokens: int, *limits: Limit) -> float:
    wait = budgets.take(limits or (LIMIT,), tokens)
    return wait if isinstance(wait, float) else await wait


# ---- the link


async def test_questions_of_one_moment_share_a_round_trip(redis: RedisServer) -> None:
    class Counting(RedisConnection):
        trips = 0

        async def run(self, calls: Any) -> list[Any]:
            Counting.trips += 1
            return await super().run(calls)

    link = Link(functools.partial(Counting, redis.url), "x", PATIENT_S)
    task = asyncio.create_task(link.run())
    await went(link, up=True)
    answers = await asyncio.gather(*(link.ask(ECHO, [], [str(n)], unwanted) for n in range(200)))
    assert answers == [str(n).encode() for n in range(200)]
    assert Counting.trips <= 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_without_redis_nobody_waits(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    async with linked(server.url) as link:
        for _ in range(10_000):
            assert link.ask(ECHO, [], ["x"], unwanted) is None
            link.tell(ECHO, [], ["x"])
        assert (link.answered, link.failed, link.dropped) == (0, 0, 0)


async def test_a_redis_that_hangs_is_not_asked_for_long(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "smg.state"):
        async with linked(redis.url, BOUND_S) as link:
            await went(link, up=True)
            redis.pause()
            given_up = 0
            while link.is_up:
                asked = link.ask(ECHO, [], ["x"], unwanted)
                assert asked is not None
                with pytest.raises(LinkError):
                    await asked
                given_up += 1
            assert given_up <= 10
            redis.resume()
            await went(link, up=True)
            answer = link.ask(ECHO, [], ["again"], unwanted)
            assert answer is not None and await answer == b"again"
    told = [record.message for record in caplog.records if record.name == "smg.state.link"]
    assert told == [
        "state is shared",
        "shared state is away, this gateway goes on alone",
        "shared state is back",
    ]


async def test_scripts_are_known_again_after_a_restart(redis: RedisServer) -> None:
    async with linked(redis.url) as link:
        for _ in range(3):
            await went(link, up=True)
            asked = link.ask(ECHO, [], ["x"], unwanted)
            assert asked is not None and await asked == b"x"
            await redis.kill()
            link.tell(ECHO, [], ["x"])
            await went(link, up=False)
            await redis.start()


async def test_the_queue_is_bounded(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smg.state.link.MAX_WAITING", 10)
    monkeypatch.setattr("smg.state.link.MAX_TOLD", 5)
    async with linked(redis.url) as link:
        await went(link, up=True)
        for _ in range(8):
            link.tell(ECHO, [], ["x"])
        asked = [link.ask(ECHO, [], ["x"], unwanted) for _ in range(10)]
        assert link.dropped == 3 + 5
        assert [one is not None for one in asked] == [True] * 5 + [False] * 5
        assert await asyncio.gather(*(one for one in asked if one is not None)) == [b"x"] * 5


async def test_a_password_is_used_and_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = await RedisServer(tmp_path, password="geheim").start()
    try:
        with caplog.at_level(logging.DEBUG):
            async with linked(server.url) as link:
                await went(link, up=True)
            async with linked(server.url.replace("geheim", "falsch")) as link:
                await until(lambda: "goes on alone" in caplog.text)
                assert not link.is_up
    finally:
        await server.kill()
    shown_fields = [str(getattr(record, "fields", "")) for record in caplog.records]
    assert not any("geheim" in text or "falsch" in text for text in (caplog.text, *shown_fields))


def test_how_a_url_is_shown() -> None:
    assert shown("redis://user:secret@host:1234/5") == "host:1234"
    assert shown("rediss://host") == "host:6379"
    assert shown("unix:///run/redis.sock?password=secret") == "/run/redis.sock"
    assert shown("redis://[secret") == "?"


# ---- budgets


async def test_two_gateways_pay_from_one_budget(redis: RedisServer) -> None:
    async with linked(redis.url) as one, linked(redis.url) as two:
        await went(one, up=True)
        await went(two, up=True)
        first, second = SharedBudgets(one, LocalBudgets()), SharedBudgets(two, LocalBudgets())
        assert await paid(first, 60) == 0
        wait_s = await paid(second, 60)
        assert 0 < wait_s <= 12.1
        assert await paid(second, 40) == 0
        assert await paid(first, 101) == math.inf
        # 60 were guessed, 10 were needed.
        first.give_back((LIMIT,), 50)
        assert await paid(first, 0) == 0
        assert await paid(second, 50) == 0
        second.give_back((LIMIT,), -1000)
        assert await paid(second, 0) > 500
        assert await paid(first, 1) > 500


async def test_all_limits_or_none(redis: RedisServer) -> None:
    rule = Limit("auth:red\nrule", tokens=10, requests=1000, is_listed=True)
    async with linked(redis.url) as link:
        await went(link, up=True)
        budgets = SharedBudgets(link, LocalBudgets())
        assert await paid(budgets, 10, LIMIT, rule) == 0
        assert await paid(budgets, 5, LIMIT, rule) > 0
        assert await paid(budgets, 90, LIMIT) == 0


async def test_many_at_once_never_pay_more_than_there_is(redis: RedisServer) -> None:
    async with linked(redis.url) as one, linked(redis.url) as two:
        await went(one, up=True)
        await went(two, up=True)
        both = [SharedBudgets(link, LocalBudgets()) for link in (one, two)]
        waits = await asyncio.gather(*(paid(both[number % 2], 1) for number in range(400)))
        # 100 at once, and what came back while it lasted.
        assert 100 <= sum(wait_s == 0 for wait_s in waits) <= 110


async def test_who_leaves_gets_back_what_was_taken(redis: RedisServer) -> None:
    async with linked(redis.url) as link:
        await went(link, up=True)
        budgets = SharedBudgets(link, LocalBudgets())
        leaving = asyncio.ensure_future(paid(budgets, 100))
        await turns()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        # Behind the question that is on its way, and behind its taking back.
        assert await paid(budgets, 1) >= 0
        assert await paid(budgets, 95) == 0


async def test_alone_a_gateway_knows_what_it_has_spent(redis: RedisServer) -> None:
    async with linked(redis.url) as link:
        await went(link, up=True)
        budgets = SharedBudgets(link, LocalBudgets())
        assert await paid(budgets, 90) == 0
        await redis.kill()
        await paid(budgets, 1)
        await went(link, up=False)
        wait = budgets.take((LIMIT,), 50)
        assert isinstance(wait, float) and wait > 0
        assert budgets.take((LIMIT,), 2) == 0


# ---- sticky keys


async def test_the_first_choice_stands(redis: RedisServer) -> None:
    async with linked(redis.url) as link:
        await went(link, up=True)
        places = SharedPlaces(link, 60)

        async def found(key: bytes) -> str | None:
            asked = places.find(key)
            assert asked is not None
            return await asked

        told: list[str] = []
        places.claim(b"k", "http://a", told.append)
        places.claim(b"k", "http://b", told.append)
        assert await found(b"k") == "http://a"
        assert told == ["http://a"]
        # A worker that is gone is replaced.
        places.claim(b"k", "http://b")
        assert await found(b"k") == "http://b"
        assert await found(b"other") is None


# ---- gateways


def tenants_file(folder: Path, **limits: int) -> str:
    path = folder / "tenants.yaml"
    scope = {"tokens_per_minute": 1_000_000, "requests_per_minute": 1_000_000}
    red = {"tenant_key": "auth:red", **scope, **limits}
    path.write_text(json.dumps({"default_policy": scope, "tenants": [red]}))
    return str(path)


RED = "Authorization: Bearer rk"


@asynccontextmanager
async def two_gateways(
    redis: RedisServer, *workers: ScriptedWorker, bound_s: float = PATIENT_S, **options: Any
) -> AsyncIterator[tuple[LiveGateway, LiveGateway]]:
    async with (
        running(*workers, state_redis_url=redis.url, **options) as one,
        running(*workers, state_redis_url=redis.url, **options) as two,
    ):
        for gateway in (one, two):
            link = gateway.server.link
            assert link is not None
            link.bound_s = bound_s
            await went(link, up=True)
        yield one, two


async def written(gateway: LiveGateway) -> None:
    """What the gateway has told Redis is there: its words go in the order in which they were said."""
    link = gateway.server.link
    assert link is not None
    asked = SharedPlaces(link, 1.0).find(b"nothing")
    assert asked is not None
    assert await asked is None


def answering(connection: Connection, request: Request) -> Any:
    return connection.answer(b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}')


async def test_a_budget_of_two_gateways(redis: RedisServer, tmp_path: Path) -> None:
    limited = {
        "tenant_api_key": (TenantKey("red", "rk"),),
        "tenant_rate_limit_enabled": True,
        "tenant_rate_limit_config": tenants_file(tmp_path, requests_per_minute=10),
    }
    async with two_gateways(redis, ScriptedWorker(answering), **limited) as gateways:
        statuses = [(await gateways[n % 2].ask(post(BODY, RED))).status for n in range(20)]
        assert "smg_state_up 1" in gateways[0].metrics
        assert 'smg_state_questions_total{result="answered"}' in gateways[0].metrics
    assert statuses[:10] == [200] * 10
    assert statuses.count(429) >= 9


@pytest.mark.parametrize(
    "options", [{"policy": "manual"}, {"policy": "random", "routing_key_override": True}]
)
async def test_a_sticky_key_of_two_gateways(redis: RedisServer, options: dict[str, Any]) -> None:
    workers = [ScriptedWorker(answering) for _ in range(4)]
    async with two_gateways(redis, *workers, **options) as (one, two):
        for number in range(12):
            line = f"X-SMG-Routing-Key: conversation-{number}"
            routed = set()
            for gateway in (one, two, one, two) if number % 2 else (two, one, two, one):
                answer = await gateway.ask(post(chat(), line))
                await written(gateway)
                routed.add(answer.get("x-smg-routed-worker-id"))
            assert len(routed) == 1


async def test_a_sticky_key_of_pairs(redis: RedisServer) -> None:
    workers = [await ScriptedWorker(answering).start() for _ in range(4)]
    prefill, decode = workers[:2], workers[2:]
    options = {
        "policy": "manual",
        "pd_disaggregation": True,
        "prefill": tuple(PrefillUrl(WorkerUrl.parse(one.url), 9001) for one in prefill),
        "decode": tuple(WorkerUrl.parse(one.url) for one in decode),
    }

    def prefilled() -> list[int]:
        return [sum(one.method == "POST" for one in worker.requests) for worker in prefill]

    try:
        async with two_gateways(redis, wait=False, **options) as gateways:
            for gateway in gateways:
                await until(lambda gateway=gateway: gateway.server.registry.ready_count == 4)
            for number in range(8):
                before, routed = prefilled(), set()
                for gateway in (*gateways, *gateways):
                    answer = await gateway.ask(post(chat(), f"X-SMG-Routing-Key: key-{number}"))
                    await written(gateway)
                    assert answer.status == 200
                    routed.add(answer.get("x-smg-routed-worker-id"))
                asked = [after - then for then, after in zip(before, prefilled(), strict=True)]
                assert (len(routed), sorted(asked)) == (1, [0, 4])
    finally:
        for worker in workers:
            await worker.stop()


async def test_no_request_is_lost_while_redis_dies_and_comes_back(redis: RedisServer, tmp_path: Path) -> None:
    options = {
        "policy": "manual",
        "tenant_api_key": (TenantKey("red", "rk"),),
        "tenant_rate_limit_enabled": True,
        "tenant_rate_limit_config": tenants_file(tmp_path),
    }
    statuses: list[int] = []
    enough = asyncio.Event()

    async def load(gateway: LiveGateway, name: int) -> None:
        number = 0
        while not enough.is_set():
            number += 1
            line = f"X-SMG-Routing-Key: {name}-{number % 50}"
            statuses.append((await gateway.ask(post(chat(), RED, line))).status)

    async def more() -> None:
        wanted = len(statuses) + 40
        await until(lambda: len(statuses) >= wanted)

    async with two_gateways(
        redis, ScriptedWorker(answering), ScriptedWorker(answering), bound_s=BOUND_S, **options
    ) as gateways:
        links = [gateway.server.link for gateway in gateways]
        tasks = [asyncio.create_task(load(gateways[n % 2], n)) for n in range(6)]
        for _ in range(2):
            await more()
            await redis.kill()
            for link in links:
                await went(link, up=False)
            await more()
            await redis.start()
            for link in links:
                await went(link, up=True)
            await more()
            redis.pause()
            await more()
            redis.resume()
        await more()
        enough.set()
        await asyncio.gather(*tasks)
    assert set(statuses) == {200}
