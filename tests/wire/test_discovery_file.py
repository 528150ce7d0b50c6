"""Workers from a file that comes late, changes, breaks and goes."""

# The files are small and local.
# ruff: noqa: ASYNC240

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from smg.server import compose_control
from smg.workers.discovery.file import MAX_FILE_BYTES, FileSource
from smg.workers.discovery.reconcile import Reconciler
from smg.workers.spec import HealthSpec, WorkerSpec
from smg.workers.worker import Status
from tests.waiting import until
from tests.wire.control_plane import Plane, control_plane
from tests.wire.fake_engine import FakeEngine
from tests.wire.live_gateway import running
from tests.wire.raw_client import chat, post
from tests.wire.scripted_worker import ScriptedWorker


@pytest.fixture
async def engines() -> AsyncIterator[list[FakeEngine]]:
    started = [await FakeEngine("m").start() for _ in range(3)]
    yield started
    for engine in started:
        await engine.stop()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workers.json"


def write(path: Path, *workers: Any, **members: Any) -> None:
    path.write_text(json.dumps({"version": 1, "workers": list(workers), **members}))


class Found:
    """A file source that looks when it is told to."""

    def __init__(self, plane: Plane, path: Path) -> None:
        self.plane = plane
        self.reconciler = Reconciler("file", plane.registry, plane.registrar)
        self.source = FileSource(str(path), self.reconciler, 30)

    async def urls(self) -> list[str]:
        """Workers that do not drain, after a look at the file."""
        await self.source.look()
        return sorted(w.url for w in self.plane.registry.all() if w.status is not Status.DRAINING)


async def test_added_changed_and_removed(engines: list[FakeEngine], path: Path) -> None:
    first, second, _ = (engine.url for engine in engines)
    async with control_plane() as plane:
        found = Found(plane, path)
        assert await found.urls() == []
        write(path, {"url": first})
        assert await found.urls() == [first]
        write(path, {"url": first}, {"url": second})
        assert await found.urls() == sorted([first, second])
        await plane.ready(2)
        kept, changed = plane.worker(first), plane.worker(second)
        write(path, {"url": first}, {"url": second, "model_id": "renamed"})
        assert await found.urls() == sorted([first, second])
        assert plane.worker(first) is kept and kept.status is Status.READY
        assert plane.worker(second) is not changed and changed.status is Status.DRAINING
        await plane.ready(2)
        assert plane.worker(second).model_id == "renamed"
        write(path)
        assert await found.urls() == []
        assert found.reconciler.registrations == {"success": 3}
        assert found.reconciler.deregistrations == {"changed": 1, "removed": 2}
        assert (found.reconciler.discovered, sum(found.reconciler.sync_seconds.row()[:-1]) > 0) == (0, True)


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b'{"version": 2, "workers": []}',
        b'{"version": 1, "workers": [], "x": 1}',
        b"",
        b"\0" * 99,
    ],
)
async def test_a_broken_file_keeps_the_last_good_list(
    engines: list[FakeEngine], path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    url = engines[0].url
    async with control_plane() as plane:
        found = Found(plane, path)
        path.write_bytes(content)
        assert await found.urls() == []
        write(path, {"url": url})
        assert await found.urls() == [url]
        path.write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "smg"):
            for _ in range(5):
                assert await found.urls() == [url]
        assert [record.message for record in caplog.records] == ["discovery file refused"]
        assert found.reconciler.snapshot_errors == {"invalid": 6}
        path.unlink()
        assert await found.urls() == [url]
        assert found.reconciler.snapshot_errors == {"invalid": 6, "missing": 1}


async def test_what_is_no_readable_file(path: Path) -> None:
    async with control_plane() as plane:
        found = Found(plane, path)
        os.mkfifo(path)
        assert await found.urls() == []
        path.unlink()
        path.mkdir()
        assert await found.urls() == []
        path.rmdir()
        path.write_bytes(b" " * (MAX_FILE_BYTES + 1))
        assert await found.urls() == []
        assert found.reconciler.snapshot_errors == {"unreadable": 2, "invalid": 1}


async def test_workers_of_somebody_else_are_left_alone(engines: list[FakeEngine], path: Path) -> None:
    mine, theirs = engines[0].url, engines[1].url
    async with control_plane() as plane:
        found = Found(plane, path)
        by_hand = plane.registrar.add(WorkerSpec(url=theirs))
        write(path, {"url": mine}, {"url": theirs, "model_id": "renamed"})
        assert await found.urls() == sorted([mine, theirs])
        assert plane.worker(theirs) is by_hand
        write(path)
        assert await found.urls() == [theirs]


async def test_a_worker_that_was_removed_by_hand_or_for_failing_comes_back(
    engines: list[FakeEngine], path: Path
) -> None:
    url = engines[0].url
    async with control_plane() as plane:
        found = Found(plane, path)
        write(path, {"url": url})
        await found.urls()
        await plane.ready(1)
        plane.registrar.remove(plane.worker(url))
        assert plane.registry.ready_count == 0
        assert await found.urls() == [url]
        await plane.ready(1)


async def test_the_registry_is_full(engines: list[FakeEngine], path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("smg.workers.register.MAX_WORKERS", 1)
    async with control_plane() as plane:
        found = Found(plane, path)
        write(path, {"url": engines[0].url}, {"url": engines[1].url})
        for _ in range(3):
            assert len(await found.urls()) == 1
        assert found.reconciler.registrations == {"success": 1, "failed": 1}


@asynccontextmanager
async def followed(source: FileSource) -> AsyncIterator[None]:
    task = asyncio.create_task(source.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_change_is_noticed_before_the_interval_is_over(engines: list[FakeEngine], path: Path) -> None:
    async with control_plane() as plane:
        reconciler = Reconciler("file", plane.registry, plane.registrar)
        async with followed(FileSource(str(path), reconciler, 3600, look_s=0.01)):
            await until(lambda: reconciler.snapshot_errors["missing"] == 1)
            write(path, {"url": engines[0].url})
            await plane.ready(1)
            # As a mounted ConfigMap does it: another file under the same name.
            other = path.with_suffix(".new")
            write(other, {"url": engines[1].url}, {"url": engines[2].url})
            other.replace(path)
            await until(lambda: reconciler.discovered == 2)
            path.write_bytes(b"broken")
            await until(lambda: reconciler.snapshot_errors["invalid"] == 1)
            write(path, {"url": engines[0].url})
            await until(lambda: reconciler.discovered == 1)


async def test_streams_of_a_worker_that_is_gone_from_the_file_run_on(
    engines: list[FakeEngine], path: Path
) -> None:
    """FF-30 for discovery: draining, not cutting."""
    url = engines[0].url
    async with control_plane() as plane:
        found = Found(plane, path)
        write(path, {"url": url})
        await found.urls()
        await plane.ready(1)
        worker = plane.worker(url)
        worker.health = HealthSpec(drain_settle_secs=0).over(worker.health)
        worker.load += 1
        backend = worker.backend
        write(path)
        assert await found.urls() == []
        assert backend is not None and not backend.closed  # type: ignore[attr-defined]
        worker.load -= 1
        await until(lambda: backend.closed)  # type: ignore[union-attr]


@pytest.mark.parametrize(("chosen", "removes"), [(None, True), (False, False), (True, True)])
async def test_a_gateway_with_a_file(path: Path, chosen: bool | None, removes: bool) -> None:
    worker = ScriptedWorker(lambda connection, request: connection.answer())
    await worker.start()
    write(path, {"url": worker.url, "model_id": "renamed"})
    options = {
        "discovery_provider": "file",
        "discovery_file": str(path),
        "discovery_check_interval_secs": 1,
        "remove_unhealthy_workers": chosen,
    }
    try:
        async with running(wait=False, **options) as gateway:
            await until(lambda: gateway.server.registry.ready_count == 1)
            assert (await gateway.ask(post(chat(model="renamed")))).status == 200
            assert (await gateway.ask(post(chat(model="m")))).status == 404
            assert 'smg_discovery_workers_discovered{source="file"} 1' in gateway.metrics
            assert 'smg_discovery_registrations_total{source="file",result="success"} 1' in gateway.metrics
            assert 'smg_discovery_sync_duration_seconds_count{source="file"}' in gateway.metrics
            assert compose_control.workers(gateway.server.config).remove_unhealthy_workers is removes
    finally:
        await worker.stop()
