"""Makes the registered workers those that a source of discovery lists: what is new registers, what is gone
drains, what changed does both.

Which workers are the source's own stands in their labels. Workers that somebody else registered are left
alone, also under a URL that the source lists.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from smg import errors
from smg._fast.limits import Spread
from smg.telemetry import logs
from smg.workers.register import Registrar
from smg.workers.registry import Registry
from smg.workers.spec import WorkerSpec
from smg.workers.worker import Status, Worker

log = logs.get(__name__)

PROVIDER_LABEL = "smg.ai/discovery-provider"
ID_LABEL = "smg.ai/discovery-id"
MODEL_LABEL = "served_model_name"


class Reconciler:
    """`source` is the provider's name. The counters are read by the metrics: registrations by result,
    deregistrations and errors of snapshots by reason."""

    def __init__(
        self,
        source: str,
        registry: Registry,
        registrar: Registrar,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.registrations: Counter[str] = Counter()
        self.deregistrations: Counter[str] = Counter()
        self.snapshot_errors: Counter[str] = Counter()
        self.discovered = 0
        self.sync_seconds = Spread()
        self._registry = registry
        self._registrar = registrar
        self._clock = clock
        self._listed: dict[str, WorkerSpec] = {}
        self._refused: dict[str, WorkerSpec] = {}

    def sync(self, listed: Mapping[str, WorkerSpec]) -> None:
        """Take over a whole list, by canonical URL; the same list again brings back what got lost."""
        begun = self._clock()
        own = self._own_workers()
        for url, workers in own.items():
            if self._listed.get(url) != listed.get(url):
                self._remove(workers, "changed" if url in listed else "removed")
        for url, spec in listed.items():
            if not self._registry.at(url):
                self._add(url, spec)
        for url in [url for url in self._refused if url not in listed]:
            del self._refused[url]
        self._listed = dict(listed)
        self.discovered = len(listed)
        self.sync_seconds.add(self._clock() - begun)

    def _own_workers(self) -> dict[str, list[Worker]]:
        own: dict[str, list[Worker]] = {}
        for worker in self._registry.all():
            if worker.status is not Status.DRAINING and worker.labels.get(PROVIDER_LABEL) == self.source:
                own.setdefault(worker.base_url, []).append(worker)
        return own

    def _remove(self, workers: list[Worker], reason: str) -> None:
        for worker in workers:
            log.info("discovered worker is gone", worker=worker.url, reason=reason)
            self._registrar.remove(worker)
            self.deregistrations[reason] += 1

    def _add(self, url: str, spec: WorkerSpec) -> None:
        try:
            self._registrar.add(spec)
        except errors.GatewayError as error:
            if self._refused.get(url) != spec:
                log.warn("discovered worker cannot be registered", worker=url, problem=error.message)
                self.registrations["failed"] += 1
            self._refused[url] = spec
            return
        self._refused.pop(url, None)
        self.registrations["success"] += 1
        log.info("discovered worker registers", worker=url, source=self.source)


def labelled(source: str, identity: str, model: str | None, **further: str) -> dict[str, str]:
    """Labels of a discovered worker: where it comes from, and its model's name if that was given."""
    named = {MODEL_LABEL: model} if model else {}
    return {**named, **further, PROVIDER_LABEL: source, ID_LABEL: identity}
