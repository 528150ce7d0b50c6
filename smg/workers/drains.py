"""Workers on their way out: they get no more requests, and end when those they have are done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from smg.telemetry import logs
from smg.workers.worker import Worker

log = logs.get(__name__)

_LOOK_S = 0.05


class Drains:
    """`forget` takes a worker out of all lists; `limit_s`: how long requests may go on, then they are cut."""

    def __init__(self, forget: Callable[[Worker], None], clock: Callable[[], float], limit_s: float) -> None:
        self._forget = forget
        self._clock = clock
        self._limit_s = limit_s
        self._tasks: dict[Worker, asyncio.Task[None]] = {}

    def settle(self, worker: Worker, settle_s: float) -> None:
        """Forget the worker after its settle time, close it when it is idle."""
        if settle_s == 0:
            self._forget(worker)
        self._begin(worker, self._settle(worker, settle_s))

    def finish(self, worker: Worker) -> None:
        """Keep the worker listed until it is idle."""
        self._begin(worker, self._finish(worker))

    async def wait(self, worker: Worker, timeout_s: float) -> None:
        """Until the worker is gone, or the time is up."""
        task = self._tasks.get(worker)
        if task is not None:
            await asyncio.wait([task], timeout=timeout_s)

    async def close(self) -> None:
        """Cut what is left."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for worker in tasks:
            _close(worker)

    def _begin(self, worker: Worker, drain: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[worker] = asyncio.create_task(drain, name=f"drain {worker.url}")
        task.add_done_callback(lambda done: self._tasks.pop(worker, None))

    async def _settle(self, worker: Worker, settle_s: float) -> None:
        await asyncio.sleep(settle_s)
        self._forget(worker)
        await self._until_idle(worker)
        _close(worker)
        log.info("worker removed", worker=worker.url)

    async def _finish(self, worker: Worker) -> None:
        await self._until_idle(worker)
        self._forget(worker)
        _close(worker)
        log.info("worker drained", worker=worker.url)

    async def _until_idle(self, worker: Worker) -> None:
        end = self._clock() + self._limit_s
        # The load is a plain number, kept cheap for the requests that count in it.
        while worker.load > 0 and self._clock() < end:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)


def _close(worker: Worker) -> None:
    if worker.backend is not None:
        worker.backend.close()
        worker.backend = None
