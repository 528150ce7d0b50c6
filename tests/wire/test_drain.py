"""Draining a worker and waiting for it (FF-30): no new requests, streams to their end, then an answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from smg.workers.worker import Status
from tests.waiting import happened, until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import BODY, Response, post
from tests.wire.scripted_worker import (
    DONE,
    LAST_CHUNK,
    SSE_HEAD,
    Connection,
    Request,
    ScriptedWorker,
    chunk,
    event,
)

STREAM = json.dumps({**json.loads(BODY), "stream": True}).encode()


class Streaming(ScriptedWorker):
    """Streams until it may end."""

    def __init__(self) -> None:
        super().__init__(self._play)
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def _play(self, connection: Connection, request: Request) -> None:
        await connection.send(SSE_HEAD, chunk(event("a")))
        self.begun.set()
        await self.may_end.wait()
        await connection.send(chunk(event("b")), chunk(DONE) + LAST_CHUNK)


async def drain(live: LiveGateway, worker: ScriptedWorker, query: str = "") -> Response:
    worker_id = live.worker(worker).id
    return await live.ask(post(b"", target=f"/workers/{worker_id}/drain{query}"))


async def test_an_idle_worker_is_gone_at_once(gateway: Start) -> None:
    one, other = ScriptedWorker(), ScriptedWorker()
    live = await gateway(one, other)
    answer = await drain(live, one)
    assert (answer.status, answer.json()["status"], answer.json()["in_flight"]) == (200, "drained", 0)
    assert live.server.registry.find_url(one.url) is None
    assert len(live.server.registry) == 1
    for _ in range(3):
        assert (await live.ask(post())).get("x-smg-routed-worker-id") == other.url


async def test_it_waits_for_a_stream_that_ends_whole(gateway: Start) -> None:
    busy, other = Streaming(), ScriptedWorker()
    live = await gateway(busy)
    client = await live.client()
    streaming = asyncio.create_task(client.ask(post(STREAM)))
    await happened(busy.begun)
    worker = live.worker(busy)
    await other.start()
    try:
        assert (
            await live.ask(post(json.dumps({"url": other.url}).encode(), target="/workers"))
        ).status == 202
        await until(lambda: live.server.registry.ready_count == 2, "the other is ready")
        draining = asyncio.create_task(drain(live, busy))
        await until(lambda: worker.status is Status.DRAINING, "it drains")
        for _ in range(3):
            assert (await live.ask(post())).get("x-smg-routed-worker-id") == other.url
        shown = (
            await live.ask(b"GET /workers/%b HTTP/1.1\r\nhost: x\r\n\r\n" % worker.id.encode(), "GET")
        ).json()
        assert (shown["status"], shown["load"]) == ("draining", 1)
        assert not draining.done()
        busy.may_end.set()
        answer = await draining
        assert (answer.status, answer.json()["status"]) == (200, "drained")
        assert (await streaming).body.endswith(DONE)
        assert len(live.server.registry) == 1
    finally:
        await other.stop()


async def test_what_is_left_when_the_time_is_up(gateway: Start) -> None:
    """The drain goes on, and can be asked for again."""
    busy = Streaming()
    live = await gateway(busy)
    client = await live.client()
    streaming = asyncio.create_task(client.ask(post(STREAM)))
    await happened(busy.begun)
    path = f"/workers/{live.worker(busy).id}/drain"
    answer = await live.ask(post(b"", target=path + "?timeout_secs=0"))
    assert (answer.status, answer.json()["status"], answer.json()["in_flight"]) == (202, "draining", 1)
    assert (await live.ask(post())).status == 503
    again = asyncio.create_task(live.ask(post(b"", target=path)))
    busy.may_end.set()
    assert (await again).status == 200
    assert (await streaming).status == 200
    assert (await live.ask(post(b"", target=path))).status == 404


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "3601", "99999999999999999999"])
async def test_a_time_that_is_none(gateway: Start, text: str) -> None:
    worker = ScriptedWorker()
    live = await gateway(worker)
    answer = await drain(live, worker, f"?timeout_secs={text}")
    assert (answer.status, answer.json()["code"]) == (400, "BAD_REQUEST")
    assert live.server.registry.ready_count == 1
