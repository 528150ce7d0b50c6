"""Data-parallel ranks over the wire: one engine, several workers, one number in the body."""

from __future__ import annotations

import json
from typing import Any

from smg.workers.worker import Status
from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.control_plane import control_plane
from tests.wire.fake_engine import FakeEngine
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import post
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker, plain
from tests.wire.test_registration import FAST


class Engine(ScriptedWorker):
    """Says that it has so many ranks."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.size = size

    def probe(self, path: str) -> bytes:
        if path == "/server_info":
            return plain(json.dumps({"model_path": self.model, "dp_size": self.size}).encode())
        return super().probe(path)


async def started(gateway: Start, engine: Engine, **options: Any) -> LiveGateway:
    live = await gateway(engine, wait=False, dp_aware=True, **options)
    await until(lambda: live.server.registry.ready_count == engine.size, "all ranks are ready")
    return live


async def test_every_rank_gets_its_number_and_the_rest_of_the_body(gateway: Start) -> None:
    engine = Engine(3)
    live = await started(gateway, engine)
    body = b'{"model": "m", "messages": [{"role":"user", "content":"x"}],"top_p": 0.50e0, "zz":{"b":1,"a":2}}'
    routed = {(await live.ask(post(body))).get("x-smg-routed-worker-id") for _ in range(6)}
    assert routed == {f"{engine.url}@{number}" for number in range(3)}
    sent = {request.body for request in engine.requests}
    assert sent == {body[:-1] + b',"data_parallel_rank":%d}' % number for number in range(3)}


async def test_a_retry_on_another_rank_has_its_number(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        if request.body.endswith(b'"data_parallel_rank":0}'):
            await connection.answer(b"{}", "503 Service Unavailable")
        else:
            await connection.answer()

    engine = Engine(2, play=play)
    live = await started(gateway, engine)
    for _ in range(4):
        answer = await live.ask(post())
        assert (answer.status, answer.get("x-smg-routed-worker-id")) == (200, f"{engine.url}@1")
    assert not any(request.body.count(b"data_parallel_rank") != 1 for request in engine.requests)


async def test_bodies_are_read_for_the_rank_however_large(gateway: Start) -> None:
    engine = Engine(2)
    live = await started(gateway, engine, max_buffered_request_bytes=0, disable_retries=True)
    answer = await live.ask(post())
    assert answer.status == 200
    assert b'"data_parallel_rank":' in engine.requests[0].body


async def test_one_rank_alone_is_a_plain_worker(gateway: Start) -> None:
    engine = Engine(1)
    live = await started(gateway, engine)
    answer = await live.ask(post())
    assert answer.get("x-smg-routed-worker-id") == engine.url
    assert b"data_parallel_rank" not in engine.requests[0].body


async def test_ranks_in_the_admin_routes() -> None:
    engine = await FakeEngine("m").start()
    engine.answers["/server_info"] = {"model_path": "m", "dp_size": 2}
    try:
        async with control_plane(engine.url, dp_aware=True) as plane:
            await plane.ready(2)
            _, listed = await plane.get("/workers")
            shown = [(w["url"], w["dp_base_url"], w["dp_rank"], w["dp_size"]) for w in listed["workers"]]
            assert shown == [(f"{engine.url}@{n}", engine.url, n, 2) for n in range(2)]
            status, _ = await plane.ask("POST", "/workers", json={"url": engine.url})
            assert status == 409
            first = listed["workers"][0]["id"]
            status, problem = await plane.ask("PUT", f"/workers/{first}", json={"url": engine.url})
            assert (status, problem["code"]) == (400, "BAD_REQUEST")
            status, _ = await plane.ask("PATCH", f"/workers/{first}", json={"priority": 7})
            assert status == 202
            _, answer = await plane.ask("POST", "/flush_cache")
            assert answer["workers_flushed"] == 1
            await plane.ask("DELETE", f"/workers/{first}")
            await plane.ready(1)
            assert plane.registry.find_url(f"{engine.url}@1") is not None
    finally:
        await engine.stop()


async def test_an_engine_that_comes_back_with_other_ranks() -> None:
    engine = await FakeEngine("m").start()
    engine.answers["/server_info"] = {"model_path": "m", "dp_size": 2}
    try:
        async with control_plane(dp_aware=True) as plane:
            await plane.ask("POST", "/workers", json={"url": engine.url, "health": FAST})
            await plane.ready(2)
            for size in (3, 1, 2):
                await engine.stop()
                await plane.ready(0)
                engine.answers["/server_info"] = {"model_path": "m", "dp_size": size}
                await engine.start()
                await plane.ready(size)
                workers = [w for w in plane.registry.all() if w.status is Status.READY]
                assert sorted(w.url for w in workers) == [f"{engine.url}@{n}" for n in range(size)]
                assert {w.rank and w.rank.size for w in workers} == {size}
    finally:
        await engine.stop()
