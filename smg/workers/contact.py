"""Workers out of touch: after one request in vain the others go elsewhere, until it is heard again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from smg.telemetry import logs
from smg.workers.registry import Registry
from smg.workers.worker import Status, Worker

log = logs.get(__name__)

_ASK_AGAIN_S = 1.0


class Contact:
    """A worker that a request could not reach, and of which nothing was heard for `silent_s` before, is put
    into the registry's `unreachable`, and asked (`is_healthy`) every second until it answers."""

    def __init__(
        self,
        registry: Registry,
        is_healthy: Callable[[Worker], Awaitable[bool]],
        silent_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._is_healthy = is_healthy
        self._silent_s = silent_s
        self._clock = clock
        self._tasks: dict[Worker, asyncio.Task[None]] = {}

    def failed(self, worker: Worker, now: float) -> None:
        """A request could not reach the worker."""
        if now - worker.heard_at < self._silent_s or worker in self._tasks or worker.is_external:
            return
        if worker.status is not Status.READY:
            return
        log.warn("worker out of touch", worker=worker.url, silent_s=round(now - worker.heard_at, 1))
        self._registry.unreachable.add(worker)
        task = self._tasks[worker] = asyncio.create_task(self._seek(worker), name=f"seek {worker.url}")
        task.add_done_callback(lambda done: self._found(worker))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _seek(self, worker: Worker) -> None:
        # What is no longer ready is the health checks' business.
        heard_at = worker.heard_at
        while worker.status is Status.READY:
            if worker.heard_at > heard_at or await self._is_healthy(worker):
                worker.heard_at = self._clock()
                log.info("worker in touch again", worker=worker.url)
                return
            await asyncio.sleep(_ASK_AGAIN_S)

    def _found(self, worker: Worker) -> None:
        self._tasks.pop(worker, None)
        self._registry.unreachable.discard(worker)
