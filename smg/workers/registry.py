"""All workers, and which of them serve which model.

Look-ups on the way of a request are one dictionary access: the entries are rebuilt when a worker
comes, goes or changes its status, which is rare.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping

from smg.workers.worker import DECODE, PREFILL, REGULAR, Backend, Rank, Status, Worker


class Change(enum.Enum):
    """What happened to a worker."""

    ADDED = "added"
    REMOVED = "removed"
    STATUS = "status"
    MODELS = "models"


class ModelEntry:
    """The workers of one model; `workers` in any state but pending and draining, `ready` to be routed to.
    The halves of prefill/decode pairs are apart, in `prefill` and `decode` when they are ready."""

    __slots__ = ("all_ready", "decode", "is_paired", "model", "prefill", "ready", "workers")

    def __init__(self, model: str, workers: tuple[Worker, ...], ready: tuple[Worker, ...]) -> None:
        self.model = model
        self.workers = workers
        self.all_ready = ready
        self.ready = tuple(w for w in ready if w.worker_type == REGULAR)
        self.prefill = tuple(w for w in ready if w.worker_type == PREFILL)
        self.decode = tuple(w for w in ready if w.worker_type == DECODE)
        self.is_paired = any(w.worker_type != REGULAR for w in workers)


class Registry:
    """`aliases`: alias → canonical model, chains already resolved. `attach` makes a worker's backend when it
    first becomes ready.
    """

    def __init__(
        self,
        aliases: Mapping[str, str] | None = None,
        attach: Callable[[Worker], Backend] | None = None,
    ) -> None:
        self._aliases = dict(aliases or {})
        self._attach = attach
        self._listeners: list[Callable[[Change, Worker], None]] = []
        self._workers: dict[str, Worker] = {}
        self._by_url: dict[str, Worker] = {}
        self._at: dict[str, list[Worker]] = {}
        self._entries: dict[str, ModelEntry] = {}
        self._any = ModelEntry("", (), ())
        self._wildcard: ModelEntry | None = None
        self._self_hosted: tuple[str, ...] = ()
        self._ready_count = 0
        self.unreachable: set[Worker] = set()
        """Workers that a request could not reach, until they are heard again: nearly always none."""
        self.stuck: set[Worker] = set()
        """Workers of whose requests nothing has come for long, until something does: nearly always none."""
        self._can_serve = False

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def ready_count(self) -> int:
        return self._ready_count

    @property
    def can_serve(self) -> bool:
        """Is there a ready worker, or for want of a whole one a ready pair of halves?"""
        return self._can_serve

    @property
    def self_hosted_models(self) -> tuple[str, ...]:
        """Every model of a self-hosted worker once, in the order of registration."""
        return self._self_hosted

    def all(self) -> tuple[Worker, ...]:
        return tuple(self._workers.values())

    def get(self, worker_id: str) -> Worker:
        """The worker of that ID; `KeyError` when there is none."""
        return self._workers[worker_id]

    def find_url(self, url: str) -> Worker | None:
        """The worker registered under a canonical URL; one that drains has given its URL free."""
        return self._by_url.get(url)

    def at(self, base_url: str) -> list[Worker]:
        """The workers of one address that do not drain; several when they are data-parallel ranks."""
        return list(self._at.get(base_url, ()))

    def find(self, model: str) -> ModelEntry | None:
        """Who serves a name: a model, a card's alias or a configured alias. `None`: nobody."""
        entry = self._entries.get(model)
        if entry is None and self._wildcard is not None:
            wildcard = self._wildcard
            return ModelEntry(self._aliases.get(model, model), wildcard.workers, wildcard.ready)
        return entry

    def any_entry(self) -> ModelEntry:
        """Workers regardless of the model; external providers only when there is nothing else."""
        return self._any

    def resolve(self, model: str) -> str:
        """The canonical name of a model, which is the name itself when it is no alias."""
        entry = self._entries.get(model)
        return entry.model if entry is not None else self._aliases.get(model, model)

    def on_change(self, listener: Callable[[Change, Worker], None]) -> None:
        """Tell `listener` of every later change, after the entries were rebuilt."""
        self._listeners.append(listener)

    def add(self, worker: Worker) -> None:
        self._workers[worker.id] = worker
        if worker.status is not Status.DRAINING:
            self._by_url[worker.url] = worker
            self._at.setdefault(worker.base_url, []).append(worker)
        self._changed(Change.ADDED, worker)

    def remove(self, worker: Worker) -> None:
        if self._workers.pop(worker.id, None) is None:
            return
        self._leave(worker)
        self._changed(Change.REMOVED, worker)

    def call_rank(self, worker: Worker, rank: Rank) -> None:
        """A worker that is not routed to turns out to be a data-parallel rank, and is called so."""
        self._forget_url(worker)
        worker.rank = rank
        worker.url = f"{worker.base_url}@{rank.number}"
        if worker.backend is not None:
            worker.backend.close()
            worker.backend = None
        if worker.id in self._workers and worker.status is not Status.DRAINING:
            self._by_url[worker.url] = worker

    def set_status(self, worker: Worker, status: Status) -> None:
        if worker.status is status or worker.id not in self._workers:
            return
        if status is Status.READY and worker.backend is None and self._attach is not None:
            worker.backend = self._attach(worker)
        if status is Status.DRAINING:
            self._leave(worker)
        worker.status = status
        self._changed(Change.STATUS, worker)

    def refresh(self, worker: Worker) -> None:
        """The models of a worker were replaced."""
        if worker.id in self._workers:
            self._changed(Change.MODELS, worker)

    def _leave(self, worker: Worker) -> None:
        """Its name and its address are free for others."""
        self._forget_url(worker)
        there = self._at.get(worker.base_url, [])
        if worker in there:
            there.remove(worker)
            if not there:
                del self._at[worker.base_url]

    def _forget_url(self, worker: Worker) -> None:
        if self._by_url.get(worker.url) is worker:
            del self._by_url[worker.url]

    def _changed(self, change: Change, worker: Worker) -> None:
        self._rebuild()
        for listener in self._listeners:
            listener(change, worker)

    def _rebuild(self) -> None:
        # A draining worker still makes its models known: no worker available, rather than no model.
        known = [w for w in self._workers.values() if w.status is not Status.PENDING]
        by_model: dict[str, list[Worker]] = {}
        names: dict[str, str] = {}
        for worker in known:
            for model in dict.fromkeys(worker.models):
                by_model.setdefault(model, []).append(worker)
            for alias, model in worker.aliases.items():
                names.setdefault(alias, model)
        entries = {model: self._entry(model, workers) for model, workers in by_model.items()}
        entries = {name: entries[model] for name, model in names.items()} | entries
        self._entries = self._with_aliases(entries)
        self._rebuild_totals(known)

    def _rebuild_totals(self, known: list[Worker]) -> None:
        hosted = [w for w in known if not w.is_external]
        self._any = self._entry("", hosted or known)
        wildcards = [w for w in known if w.takes_any_model]
        self._wildcard = self._entry("", wildcards) if wildcards else None
        ready = [w.worker_type for w in known if w.status is Status.READY]
        self._ready_count = len(ready)
        self._can_serve = REGULAR in ready or (PREFILL in ready and DECODE in ready)
        served = (m for w in hosted if w.status is not Status.DRAINING for m in w.models)
        self._self_hosted = tuple(dict.fromkeys(served))

    def _with_aliases(self, entries: dict[str, ModelEntry]) -> dict[str, ModelEntry]:
        """A configured alias hides a model of the same name."""
        merged = dict(entries)
        for alias, model in self._aliases.items():
            if model in entries:
                merged[alias] = entries[model]
            else:
                merged.pop(alias, None)
        return merged

    def _entry(self, model: str, workers: Iterable[Worker]) -> ModelEntry:
        """The former entry, if nothing changed in it: others may hang state on its identity."""
        alive = tuple(w for w in workers if w.status is not Status.DRAINING)
        ready = tuple(w for w in alive if w.status is Status.READY)
        former = self._entries.get(model) if model else self._any
        if former is not None and (former.model, former.workers, former.all_ready) == (model, alive, ready):
            return former
        return ModelEntry(model, alive, ready)
