"""What engines report of their load, asked for at an interval: queues, KV cache, throughput."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from smg.telemetry import logs
from smg.workers.engine import EngineClient, EngineError
from smg.workers.registry import Change, Registry
from smg.workers.reports import Row, report_of, rows_of_loads, rows_of_metrics, rows_of_old_load
from smg.workers.worker import Status, Worker

log = logs.get("load")

PARALLEL = 64
TIMEOUT_S = 5.0
# A route that is not there is asked for again only after so many rounds: engines are upgraded in place.
SKIPPED_ROUNDS = 30

LOADS = "/v1/loads?include=core,disagg,queues,memory"
OLD_LOAD = "/get_load"
METRICS = "/metrics"
_ROUTES = ((LOADS, rows_of_loads), (OLD_LOAD, rows_of_old_load), (METRICS, rows_of_metrics))


class _Place:
    """An address that is asked once for all its data-parallel ranks. `skip`: rounds by route."""

    __slots__ = ("due", "skip", "workers")

    def __init__(self, due: float) -> None:
        self.due = due
        self.skip: dict[str, int] = {}
        self.workers: list[Worker] = []


class LoadMonitor:
    """`key_of` gives the key a worker is asked with; `interval_s` between two questions to a worker that has
    no interval of its own. `on_report` hears of a worker whose report is new, or has lapsed."""

    def __init__(
        self,
        registry: Registry,
        client: EngineClient,
        key_of: Callable[[Worker], str | None],
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        on_report: Callable[[Worker], None] | None = None,
    ) -> None:
        self._registry = registry
        self._client = client
        self._key_of = key_of
        self._interval_s = interval_s
        self._clock = clock
        self._on_report = on_report
        self._places: dict[str, _Place] = {}
        self._slots = asyncio.Semaphore(PARALLEL)
        self._wake = asyncio.Event()
        self.polls: dict[str, int] = {}
        """Questions by the worker's URL, of the workers there are."""
        registry.on_change(self._on_change)

    async def run(self) -> None:
        """Ask every worker as soon as it is ready, and then at its interval, until cancelled."""
        while True:
            self._wake.clear()
            pause_s = await self.round()
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def round(self) -> float:
        """Ask whoever is due; the seconds until somebody is again."""
        now = self._clock()
        self._find_places(now)
        due = [place for place in self._places.values() if place.due <= now]
        for place in due:
            place.due = now + self._interval_of(place.workers[0])
        await asyncio.gather(*(self._poll(place) for place in due))
        soonest = min((place.due for place in self._places.values()), default=now + self._interval_s)
        return max(soonest - self._clock(), 0.0)

    def _interval_of(self, worker: Worker) -> float:
        return worker.load_interval_s or self._interval_s

    def _find_places(self, now: float) -> None:
        found: dict[str, _Place] = {}
        for worker in self._registry.all():
            if worker.status is Status.READY and not worker.is_external:
                url = worker.base_url
                place = found.get(url)
                if place is None:
                    place = found[url] = self._places.get(url) or _Place(now)
                    place.workers = []
                place.workers.append(worker)
        self._places = found

    def _on_change(self, change: Change, worker: Worker) -> None:
        if change is Change.STATUS and worker.status is Status.READY:
            self._wake.set()
        elif change is Change.REMOVED:
            self.polls.pop(worker.url, None)

    async def _poll(self, place: _Place) -> None:
        place.skip = {path: rounds - 1 for path, rounds in place.skip.items() if rounds > 1}
        workers = place.workers
        for worker in workers:
            self.polls[worker.url] = self.polls.get(worker.url, 0) + 1
        async with self._slots:
            rows = await self._rows(place)
        now = self._clock()
        for worker in workers:
            rank = worker.rank
            own = rows if rank is None else [row for row in rows if row["dp_rank"] == rank.number]
            report = report_of(own, now)
            if report is not None:
                worker.reported(report, own)
            # A report that is no longer renewed says nothing about now.
            elif worker.report is not None and now - worker.report.at > 3 * self._interval_of(worker):
                worker.reported(None)
            else:
                continue
            if self._on_report is not None:
                self._on_report(worker)

    async def _rows(self, place: _Place) -> list[Row]:
        for path, read in _ROUTES:
            try:
                body = await self._ask(place, path)
            except EngineError:
                break  # it would keep the round waiting on every path
            rows = read(body) if body is not None else []
            if rows:
                return rows
        return []

    async def _ask(self, place: _Place, path: str) -> bytes | None:
        if path in place.skip:
            return None
        worker = place.workers[0]
        answer = await self._client.get(worker.base_url + path, self._key_of(worker), TIMEOUT_S)
        heard_at = self._clock()
        for one in place.workers:
            one.heard_at = heard_at
        if answer.status in (404, 405, 501):
            place.skip[path] = SKIPPED_ROUNDS
        return answer.body if answer.is_ok else None
