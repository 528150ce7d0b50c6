"""The life of every worker from its registration to its removal, one background task for each.

A task probes its engine until it answers, then watches its health; removal lets running requests
end. Engines that come up late are found however late that is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from smg import errors
from smg.config import model
from smg.config.specs import WorkerUrl
from smg.telemetry import logs
from smg.workers import ranks
from smg.workers.breaker import State
from smg.workers.build import Builder
from smg.workers.contact import Contact
from smg.workers.drains import Drains
from smg.workers.engine import EngineClient, EngineError
from smg.workers.health import Health
from smg.workers.probe import Prober
from smg.workers.registry import Registry
from smg.workers.spec import WorkerSpec, WorkerUpdate, external_spec
from smg.workers.worker import EXTERNAL, Rank, Status, Worker

log = logs.get(__name__)

MAX_WORKERS = 4096
# How long a removed worker's streams may go on before their connections are closed.
DRAIN_LIMIT_S = 3600.0


class Job(msgspec.Struct):
    """A running or failed background job, as shown by `/workers/ID`; `timestamp` in seconds of the epoch."""

    job_type: str
    worker_url: str
    status: str
    timestamp: int
    message: str | None = None


class Registrar:
    """Adds, changes and removes workers. `retry_step_s`: each pause between two tries is so much longer."""

    def __init__(
        self,
        registry: Registry,
        client: EngineClient,
        workers: model.Workers,
        breaker: model.Breaker,
        api_key: str | None,
        clock: Callable[[], float] = time.monotonic,
        retry_step_s: float = 0.5,
        drain_limit_s: float = DRAIN_LIMIT_S,
        on_breaker: Callable[[str, State, State], None] | None = None,
        protection: model.Protection | None = None,
    ) -> None:
        self._registry = registry
        self._prober = Prober(client, api_key)
        self._options = workers
        protection = protection or model.Protection()
        silent_s = protection.worker_stall_secs
        self._contact = Contact(registry, self._prober.is_healthy, silent_s, clock) if silent_s else None
        self._builder = Builder(workers, breaker, on_breaker, protection, self._contact)
        self._clock = clock
        self._retry_step_s = retry_step_s
        self._drains = Drains(self._forget, clock, drain_limit_s)
        remove_failed = bool(workers.remove_unhealthy_workers)
        self._health = Health(registry, self._prober, self._revive, remove_failed, clock)
        self._specs: dict[str, WorkerSpec] = {}
        # What the engines said of themselves, which is under what their specifications say.
        self._found_labels: dict[str, dict[str, str]] = {}
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(workers.job_queue_concurrency)

    @property
    def prober(self) -> Prober:
        return self._prober

    @property
    def checks(self) -> dict[tuple[str, str], int]:
        """Health checks by the worker's type and their outcome."""
        return self._health.checks

    def add_configured(self) -> None:
        """Register the workers of the configuration; an URL given twice is one worker."""
        external = self._options.backend == "openai"
        for url in dict.fromkeys(str(url) for url in self._options.worker_urls):
            self.add(external_spec(url, self._options.backend) if external else WorkerSpec(url=url))

    def add(self, spec: WorkerSpec) -> Worker:
        """Take a worker in and begin to probe it. Raises `GatewayError` when that can't be."""
        problem = spec.problem()
        if problem is not None:
            raise errors.bad_worker_request(problem)
        try:
            target = WorkerUrl.parse(spec.url)
        except ValueError as error:
            raise errors.bad_worker_request(str(error)) from None
        if self._is_taken(str(target)):
            raise self._taken(str(target))
        if len(self._registry) >= MAX_WORKERS:
            raise errors.too_many_workers(MAX_WORKERS)
        most = self._options.job_queue_capacity
        if len(self._registry) >= most and self._count(Status.PENDING) >= most:
            raise errors.too_many_jobs(most)
        return self._take_in(self._builder.make(target, spec), spec)

    def _is_taken(self, url: str) -> bool:
        if self._registry.find_url(url) is not None:
            return True
        return self._options.dp_aware and bool(self._registry.at(url))

    def _count(self, status: Status) -> int:
        return sum(worker.status is status for worker in self._registry.all())

    def _taken(self, url: str) -> errors.GatewayError:
        there = self._registry.find_url(url)
        if there is not None and there.status is Status.PENDING:
            return errors.worker_create_in_progress(url)
        return errors.worker_already_exists(url)

    def _take_in(self, worker: Worker, spec: WorkerSpec) -> Worker:
        self._registry.add(worker)
        self._specs[worker.id] = spec
        self._note(worker, "AddWorker", "pending")
        self._tasks[worker.id] = asyncio.create_task(self._run(worker), name=f"worker {worker.url}")
        return worker

    def update(self, worker: Worker, update: WorkerUpdate) -> None:
        """Change what can be changed while the worker serves. Raises `GatewayError` on a bad key."""
        problem = update.problem()
        if problem is not None:
            raise errors.bad_worker_request(problem)
        if update.priority is not None:
            worker.priority = update.priority
        if update.cost is not None:
            worker.cost = update.cost
        if update.api_key is not None:
            worker.api_key = update.api_key
        if update.health is not None:
            worker.health = update.health.over(worker.health)
        spec = self._specs.get(worker.id)
        if update.labels and spec is not None:
            worker.labels = {**worker.labels, **update.labels}
            labels = {**(spec.labels or {}), **update.labels}
            self._specs[worker.id] = msgspec.structs.replace(spec, labels=labels)

    def replace(self, worker: Worker, spec: WorkerSpec) -> None:
        """Take over a whole specification of the same URL; what it leaves out is as if it never was given.
        The breaker stays. Raises `GatewayError` when only a new worker could be like that."""
        problem = spec.problem() or _lasting(worker, spec)
        if problem is not None:
            raise errors.bad_worker_request(problem)
        if worker.id not in self._specs:
            return
        self._specs[worker.id] = spec
        self._builder.apply(spec, worker)
        worker.labels = {**self._found_labels.get(worker.id, {}), **(spec.labels or {})}
        if spec.models is not None:
            worker.set_cards(spec.models)
            self._registry.refresh(worker)
        if worker.status is Status.READY and not worker.is_external and worker.id not in self._looks:
            # What the specification leaves open is the engine's to say again.
            looked = asyncio.create_task(self._look_again(worker), name=f"worker {worker.url} again")
            self._looks[worker.id] = looked

    def spec_of(self, worker: Worker) -> WorkerSpec | None:
        """What was last asked for; None for a worker that is gone."""
        return self._specs.get(worker.id)

    def remove(self, worker: Worker) -> None:
        """Send no more requests to a worker, forget it after its settle time, close it when it is idle."""
        # What never served has nothing to settle.
        settle_s = 0.0 if worker.status is Status.PENDING else worker.health.drain_settle_s
        if self._retire(worker):
            self._drains.settle(worker, settle_s)

    async def drain(self, worker: Worker, timeout_s: float) -> int:
        """Send no more requests to a worker, and remove it when it is idle: wait for that, and return how
        many requests it still has when the time is up."""
        if self._retire(worker):
            self._drains.finish(worker)
        await self._drains.wait(worker, timeout_s)
        return worker.load

    def _retire(self, worker: Worker) -> bool:
        """False: it was on its way out before."""
        if worker.status is Status.DRAINING:
            return False
        task = self._tasks.pop(worker.id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        self._registry.set_status(worker, Status.DRAINING)
        self._note(worker, "RemoveWorker", "processing")
        log.info("worker draining", worker=worker.url, requests=worker.load)
        return True

    def find_job(self, worker_id: str) -> Job | None:
        """The job that runs for a worker or that failed last."""
        return self._jobs.get(worker_id)

    async def close(self) -> None:
        """End every task; workers that were being drained are closed, registered ones are left alone."""
        tasks = [*self._tasks.values(), *self._looks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        await self._drains.close()
        if self._contact is not None:
            await self._contact.close()

    # ---- one worker

    async def _look_again(self, worker: Worker) -> None:
        try:
            problem = await self._try_to_inspect(worker)
            if problem is not None:
                log.warn("replaced worker does not answer", worker=worker.url, problem=problem)
        except Exception as bug:
            log.exception("worker task failed", bug, worker=worker.url)
        finally:
            del self._looks[worker.id]

    async def _run(self, worker: Worker) -> None:
        while True:
            try:
                if await self._register(worker):
                    if worker.is_external:
                        return
                    await self._health.watch(worker)
                self.remove(worker)
                return
            except Exception as bug:
                log.exception("worker task failed", bug, worker=worker.url)
                self._note(worker, "AddWorker", "failed", "internal error")
                self._registry.set_status(worker, Status.FAILED)
                await asyncio.sleep(self._options.worker_startup_check_interval)

    async def _register(self, worker: Worker) -> bool:
        """Probe until the engine answers. False: it failed too long and is to be removed."""
        if self._options.worker_startup_delay:
            await asyncio.sleep(self._options.worker_startup_delay)
        deadline = self._clock() + self._options.worker_startup_timeout_secs
        tries = 0
        self._note(worker, "AddWorker", "processing")
        while True:
            problem = await self._try_to_inspect(worker)
            if problem is None and not self._match_ranks(worker):
                return False
            if problem is None:
                self._jobs.pop(worker.id, None)
                # What made it ready was its first check.
                self._health.count(worker, True)
                self._registry.set_status(worker, Status.READY)
                log.info("worker ready", worker=worker.url, runtime=worker.runtime, model=worker.model_id)
                return True
            tries += 1
            is_over = self._clock() >= deadline or self._has_tried_enough(worker, tries)
            if is_over and not self._give_up(worker, problem):
                return False
            if tries == 1:
                log.warn("worker not reachable yet", worker=worker.url, problem=problem)
            self._note(worker, "AddWorker", self._jobs[worker.id].status, problem)
            await asyncio.sleep(min(tries * self._retry_step_s, self._options.worker_startup_check_interval))

    def _has_tried_enough(self, worker: Worker, tries: int) -> bool:
        spec = self._specs.get(worker.id)
        most = spec.max_connection_attempts if spec is not None else None
        return most is not None and tries >= most

    def _give_up(self, worker: Worker, problem: str) -> bool:
        """The start-up time is over. True: keep trying all the same."""
        if worker.status is not Status.FAILED:
            log.error("worker failed to start", worker=worker.url, problem=problem)
            self._registry.set_status(worker, Status.FAILED)
        self._note(worker, "AddWorker", "failed", problem)
        return not self._options.remove_unhealthy_workers

    async def _try_to_inspect(self, worker: Worker) -> str | None:
        """Probe once and take over what was found; the problem, if that failed."""
        spec = self._specs.get(worker.id)
        if spec is None:
            return "it was removed"
        try:
            async with self._slots:
                found = await self._prober.inspect(worker, spec.engine, spec.models)
        except EngineError as error:
            return str(error)
        worker.heard_at = self._clock()
        # It may have been removed, replaced or labelled while the probes ran.
        now = self._specs.get(worker.id)
        if now is None:
            return "it was removed"
        if (now.engine, now.models) != (spec.engine, spec.models):
            return await self._try_to_inspect(worker)
        worker.runtime = found.runtime
        self._found_labels[worker.id] = found.labels
        worker.labels = {**found.labels, **(now.labels or {})}
        if worker.cards != found.cards:
            worker.set_cards(found.cards)
            self._registry.refresh(worker)
        return None

    async def _revive(self, worker: Worker) -> bool:
        """An engine that came back is inspected like a new one: it may serve another model now."""
        if await self._try_to_inspect(worker) is not None:
            return False
        if not self._match_ranks(worker):
            self.remove(worker)
            return False
        return True

    def _match_ranks(self, worker: Worker) -> bool:
        """Give every data-parallel rank of an engine its worker. False: this worker's rank is no more."""
        if not self._options.dp_aware or worker.is_external:
            return True
        size = ranks.size_of(worker)
        rank = ranks.rank_of(worker, size)
        if rank is None or rank == worker.rank:
            return True
        if rank.number >= size:
            return False
        added = ranks.missing(worker, size, self._registry.at(worker.base_url))
        self._registry.call_rank(worker, rank)
        for number in added[: MAX_WORKERS - len(self._registry)]:
            self._add_rank(worker, Rank(number, size))
        return True

    def _add_rank(self, first: Worker, rank: Rank) -> None:
        spec = self._specs[first.id]
        worker = self._builder.make(first.target, spec)
        self._registry.call_rank(worker, rank)
        self._take_in(worker, spec)

    def _forget(self, worker: Worker) -> None:
        self._registry.remove(worker)
        self._specs.pop(worker.id, None)
        self._found_labels.pop(worker.id, None)
        self._jobs.pop(worker.id, None)

    def _note(self, worker: Worker, job_type: str, status: str, message: str | None = None) -> None:
        self._jobs[worker.id] = Job(job_type, worker.url, status, int(time.time()), message)


def _lasting(worker: Worker, spec: WorkerSpec) -> str | None:
    """What of a specification cannot become true of a worker that is there."""
    if spec.worker_type != worker.worker_type:
        return "The type of a worker cannot be changed; delete it and add it again"
    if (spec.engine == EXTERNAL) != worker.is_external:
        return "A worker cannot become a provider or cease to be one; delete it and add it again"
    return None
