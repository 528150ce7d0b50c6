"""Workers found as pods: the pods are listed once and then watched, and the workers follow.

While the API server is away, the workers stay as they were.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Protocol

from smg.config.specs import WorkerUrl
from smg.telemetry import logs
from smg.workers.discovery.pods import ClusterError, Pod, PodReader, Roles
from smg.workers.discovery.reconcile import Reconciler
from smg.workers.spec import WorkerSpec

log = logs.get(__name__)

PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
# Events that come close together are taken over together.
GATHER_S = 0.1
# Workers that were removed for failing are registered anew this often.
RESYNC_S = 30.0


class Pods(Protocol):
    """Where pods are listed and watched; raises `ClusterError`."""

    async def list_pods(self, selector: str) -> tuple[str, list[Pod]]: ...

    def watch_pods(self, selector: str, version: str) -> AsyncGenerator[tuple[str, Pod]]: ...

    async def close(self) -> None: ...


class KubernetesSource:
    """`pause_s`: shortest pause between two requests that bring nothing, and where the back-off begins."""

    def __init__(
        self,
        pods: Pods,
        reader: PodReader,
        roles: Roles,
        reconciler: Reconciler,
        pause_s: float = PAUSE_S,
        resync_s: float = RESYNC_S,
    ) -> None:
        self._pods = pods
        self._reader = reader
        self._roles = roles
        self._view = _View(roles.query)
        self._reconciler = reconciler
        self._pause_s = pause_s
        self._resync_s = resync_s
        self._dirty = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow(self._view), name="watch pods")
                group.create_task(self._reconcile(), name="discovered pods")
        finally:
            await self._pods.close()

    async def _follow(self, view: _View) -> None:
        while True:
            try:
                await self._list_and_watch(view)
            except ClusterError as error:
                self._reconciler.snapshot_errors[error.reason] += 1
                view.failed(error)
            except Exception as bug:
                log.exception("watching pods failed", bug, selector=view.query)
                view.failures += 1
            longest = min(self._pause_s * 2.0 ** min(view.failures - 1, 10), LONGEST_PAUSE_S)
            await asyncio.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311

    async def _list_and_watch(self, view: _View) -> None:
        """Ends only by raising."""
        query, clock = view.query, asyncio.get_running_loop().time
        version, pods = await self._pods.list_pods(query)
        view.replace(pods)
        self._dirty.set()
        while True:
            begun = clock()
            async with aclosing(self._pods.watch_pods(query, version)) as events:
                async for kind, pod in events:
                    version = pod.metadata.resource_version or version
                    if view.note(kind, pod):
                        self._dirty.set()
                    view.works()
            view.works()
            await asyncio.sleep(max(self._pause_s - (clock() - begun), 0))

    async def _reconcile(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._resync_s):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            # Before the first list, a worker that is missing may only not have been seen yet.
            if self._view.is_listed:
                try:
                    self._reconciler.sync(self._listed())
                except Exception as bug:
                    log.exception("discovered pods cannot be taken over", bug)
            await asyncio.sleep(GATHER_S)

    def _listed(self) -> dict[str, WorkerSpec]:
        specs: dict[str, WorkerSpec] = {}
        for pod in self._view.pods.values():
            worker_type = self._roles.of(pod)
            if worker_type is None:
                continue
            spec = self._reader.spec(pod, worker_type)
            try:
                specs.setdefault(str(WorkerUrl.parse(spec.url)), spec)
            except ValueError:
                # An address that is none; the API server has checked it, so nobody gets here.
                continue
        return specs


class _View:
    """The pods that count, by UID, as far as they are known."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.pods: dict[str, Pod] = {}
        self.is_listed = False
        self.failures = 0
        self._problem = ""

    def replace(self, pods: Iterable[Pod]) -> None:
        self.pods = {pod.metadata.uid: pod for pod in pods if pod.counts}
        self.is_listed = True

    def note(self, kind: str, pod: Pod) -> bool:
        """Take an event over; did it change anything?"""
        if kind == "BOOKMARK":
            return False
        uid = pod.metadata.uid
        if kind != "DELETED" and pod.counts:
            changed = self.pods.get(uid) != pod
            self.pods[uid] = pod
            return changed
        return self.pods.pop(uid, None) is not None

    def works(self) -> None:
        """A watch brought something, or ended as it should."""
        if self._problem:
            log.info("pods are watched again", selector=self.query, pods=len(self.pods))
        self._problem = ""
        self.failures = 0

    def failed(self, error: ClusterError) -> None:
        self.failures += 1
        if error.reason == "expired":
            # Nothing is wrong: the watch was away longer than the server remembers.
            log.debug("pods are listed anew", selector=self.query)
        elif str(error) != self._problem:
            self._problem = str(error)
            log.warn(
                "pods cannot be watched, workers stay as they are",
                selector=self.query,
                reason=error.reason,
                problem=str(error),
            )
