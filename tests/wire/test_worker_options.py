"""What a worker's specification may say, and how it is replaced; admin routes of what is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from smg.workers.worker import Status
from tests.waiting import until
from tests.wire.control_plane import control_plane
from tests.wire.fake_engine import FakeEngine


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = await FakeEngine("m").start()
    yield engine
    await engine.stop()


async def test_put_replaces_all_that_was_asked_for(engine: FakeEngine) -> None:
    async with control_plane() as plane:
        first = {
            "url": engine.url,
            "labels": {"a": "1", "served_model_name": "mine"},
            "priority": 70,
            "cost": 2.0,
            "api_key": "k",
            "models": [{"id": "x"}],
            "health": {"timeout_secs": 9},
            "resilience": {"max_retries": 2},
            "overload": {"waiting_requests": 3},
            "load_monitor_interval_secs": 5,
            "max_connection_attempts": 3,
        }
        _, added = await plane.ask("POST", "/workers", json=first)
        await plane.ready(1)
        worker = plane.worker(engine.url)
        _, shown = await plane.get(added["location"])
        for name in ("resilience", "overload", "load_monitor_interval_secs", "max_connection_attempts"):
            assert shown[name] == first[name]
        assert (worker.models, worker.retries) == (("x",), {"retry_max_retries": 2})
        body = {"url": engine.url, "labels": {"b": "2"}}
        assert (await plane.ask("PUT", added["location"], json=body))[0] == 202
        await until(lambda: worker.models == ("m",), "the engine's own models are back")
        _, shown = await plane.get(added["location"])
        labels = shown["labels"]
        assert (labels["b"], "a" in labels, labels["served_model_name"]) == ("2", False, "m")
        assert (shown["priority"], shown["cost"], shown["max_connection_attempts"]) == (50, 1.0, 20)
        assert (shown["health"]["timeout_secs"], worker.api_key, worker.retries) == (5, None, {})
        assert not {"resilience", "overload", "load_monitor_interval_secs"} & set(shown)
        for change in ({"worker_type": "prefill"}, {"runtime_type": "external"}):
            status, answer = await plane.ask("PUT", added["location"], json={**body, **change})
            assert (status, answer["code"]) == (400, "BAD_REQUEST")


async def test_a_worker_that_does_not_answer_fails_after_so_many_attempts(engine: FakeEngine) -> None:
    engine.answers["/health"] = 503
    async with control_plane() as plane:
        spec = {"url": engine.url, "max_connection_attempts": 2}
        _, added = await plane.ask("POST", "/workers", json=spec)
        worker = plane.worker(engine.url)
        await until(lambda: worker.status is Status.FAILED)
        assert engine.paths().count("/health") == 2
        _, shown = await plane.get(added["location"])
        assert shown["job_status"]["status"] == "failed"


async def test_many_puts_look_at_the_engine_once_at_a_time(engine: FakeEngine) -> None:
    async with control_plane() as plane:
        _, added = await plane.ask("POST", "/workers", json={"url": engine.url})
        await plane.ready(1)
        may_answer = asyncio.Event()

        async def answer_later() -> Any:
            await may_answer.wait()
            return engine.usual("/v1/models")

        engine.answers["/v1/models"] = lambda request: answer_later()
        before = len(asyncio.all_tasks())
        for number in range(20):
            body = {"url": engine.url, "labels": {"turn": str(number)}}
            assert (await plane.ask("PUT", added["location"], json=body))[0] == 202
        assert len(asyncio.all_tasks()) <= before + 5
        may_answer.set()
        await plane.ask("PUT", added["location"], json={"url": engine.url, "models": [{"id": "x"}]})
        await until(lambda: plane.worker(engine.url).models == ("x",), "the last one counts")


async def test_put_on_a_worker_on_its_way(engine: FakeEngine) -> None:
    """What a registration finds out belongs to the specification that is asked for in the end."""
    async with control_plane() as plane:
        _, added = await plane.ask("POST", "/workers", json={"url": engine.url, "models": [{"id": "x"}]})
        body = {"url": engine.url, "models": [{"id": "y"}], "labels": {"b": "2"}}
        assert (await plane.ask("PUT", added["location"], json=body))[0] == 202
        await plane.ready(1)
        worker = plane.worker(engine.url)
        assert (worker.models, worker.labels["b"]) == (("y",), "2")


async def test_workers_on_their_way_are_bounded(engine: FakeEngine) -> None:
    async with control_plane(job_queue_capacity=2) as plane:
        for port in (1, 2):
            assert (await plane.ask("POST", "/workers", json={"url": f"http://127.0.0.1:{port}"}))[0] == 202
        status, answer = await plane.ask("POST", "/workers", json={"url": engine.url})
        assert (status, answer["code"]) == (503, "TOO_MANY_JOBS")
        (location,) = (f"/workers/{w.id}" for w in plane.registry.all() if w.base_url.endswith(":2"))
        assert (await plane.ask("DELETE", location))[0] == 202
        assert (await plane.ask("POST", "/workers", json={"url": engine.url}))[0] == 202
        await plane.ready(1)


async def test_what_is_not_offered() -> None:
    async with control_plane(admins=("a:A:admin:ak",)) as plane:
        admin = {"Authorization": "Bearer ak"}
        missing = {"error": {"message": "Tokenizer 'x' not found", "type": "tokenizer_not_found"}}
        expected: list[tuple[str, str, int, Any]] = [
            ("GET", "/wasm", 500, ""),
            ("POST", "/wasm", 500, ""),
            ("DELETE", "/wasm/x", 500, ""),
            ("GET", "/v1/tokenizers/x", 404, missing),
            ("DELETE", "/v1/tokenizers/x", 404, missing),
        ]
        for method, path, status, body in expected:
            assert (await plane.ask(method, path))[0] == 401
            assert await plane.ask(method, path, headers=admin) == (status, body)
        codes = {"/heap_profile": "heap_profile_not_built", "/v1/tokenizers": "not_implemented"}
        for path, code in codes.items():
            assert (await plane.ask("POST", path))[0] == 401
            status, answer = await plane.ask("POST", path, headers=admin)
            assert (status, answer["error"]["code"]) == (501, code)


async def test_a_new_worker_may_be_left_alone_at_first(engine: FakeEngine) -> None:
    async with control_plane(worker_startup_delay=3600) as plane:
        _, added = await plane.ask("POST", "/workers", json={"url": engine.url})
        _, shown = await plane.get(added["location"])
        assert (shown["status"], "job_status" in shown) == ("pending", True)
        assert engine.seen == []
