"""A worker's name that comes to stand for another address: pooled connections to the old one are left."""

from __future__ import annotations

from collections.abc import Sequence

from smg.backends.http import HttpBackend
from tests.waiting import happened, until
from tests.wire.conftest import Start
from tests.wire.raw_client import post
from tests.wire.scripted_worker import ScriptedWorker


async def test_a_worker_that_moved_is_followed(gateway: Start) -> None:
    """Although requests never pause, so that no connection becomes idle for long."""
    former = ScriptedWorker(name="localhost")
    live = await gateway(former)
    later = ScriptedWorker(host="127.0.0.2")
    later.port = former.port
    await later.start()
    try:
        backend = live.worker(former).backend
        assert isinstance(backend, HttpBackend)
        addresses = ["127.0.0.1"]

        async def resolve(host: str, port: int) -> Sequence[str]:
            assert host == "localhost"
            return addresses

        backend.dialer.resolve = resolve
        client = await live.client()
        for _ in range(3):
            assert (await client.ask(post())).status == 200
        assert len(former.exchanges) == 1
        addresses[:] = ["127.0.0.2"]
        backend.dialer.due_ns = 0  # its time has come
        await client.ask(post())
        await happened(former.exchanges[0].ended)
        before = len(former.requests)
        for _ in range(3):
            assert (await client.ask(post())).status == 200
        assert (len(former.requests), len(later.requests)) == (before, 3)
        await until(lambda: live.counts.upstreams == 1, "the old connection is closed")
    finally:
        await later.stop()
