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
from smg.workers.breaker import Breaker, State
from smg.workers.engine import EngineClient, EngineError
from smg.workers.health import Health
from smg.workers.probe import Prober
from smg.workers.registry import Registry
from smg.workers.spec import WorkerSpec, WorkerUpdate, external_spec, provider_name
from smg.workers.worker import EXTERNAL, HealthOptions, Status, Worker

log = logs.get(__name__)

MAX_WORKERS = 4096
PARALLEL_PROBES = 200
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
    ) -> None:
        self._registry = registry
        self._prober = Prober(client, api_key)
        self._options = workers
        self._breaker = breaker
        self._clock = clock
        self._retry_step_s = retry_step_s
        self._drain_limit_s = drain_limit_s
        self._on_breaker = on_breaker
        remove_failed = bool(workers.remove_unhealthy_workers)
        self._health = Health(registry, self._prober, self._revive, remove_failed, clock)
        self._specs: dict[str, WorkerSpec] = {}
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._drains: dict[asyncio.Task[None], Worker] = {}
        self._slots = asyncio.Semaphore(PARALLEL_PROBES)

    @property
    def prober(self) -> Prober:
        return self._prober

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
        if self._registry.find_url(str(target)) is not None:
            raise errors.worker_already_exists(str(target))
        if len(self._registry) >= MAX_WORKERS:
            raise errors.too_many_workers(MAX_WORKERS)
        worker = self._make(target, spec)
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
        """Take over a whole specification of the same URL, except what only a new worker can be given."""
        problem = spec.problem()
        if problem is not None:
            raise errors.bad_worker_request(problem)
        self.update(worker, WorkerUpdate(spec.labels, spec.priority, spec.cost, spec.api_key, spec.health))
        former = self._specs.get(worker.id)
        if spec.models is not None and former is not None:
            self._specs[worker.id] = msgspec.structs.replace(former, models=spec.models)
            worker.set_cards(spec.models)
            self._registry.refresh(worker)

    def remove(self, worker: Worker) -> None:
        """Send no more requests to a worker, forget it after its settle time, close it when it is idle."""
        if worker.status is Status.DRAINING:
            return
        task = self._tasks.pop(worker.id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        # What never served has nothing to settle.
        settle_s = 0.0 if worker.status is Status.PENDING else worker.health.drain_settle_s
        self._registry.set_status(worker, Status.DRAINING)
        self._note(worker, "RemoveWorker", "processing")
        log.info("worker draining", worker=worker.url, requests=worker.load)
        if settle_s == 0:
            self._forget(worker)
        drain = asyncio.create_task(self._drain(worker, settle_s), name=f"drain {worker.url}")
        self._drains[drain] = worker
        drain.add_done_callback(lambda done: self._drains.pop(done, None))

    def find_job(self, worker_id: str) -> Job | None:
        """The job that runs for a worker or that failed last."""
        return self._jobs.get(worker_id)

    async def close(self) -> None:
        """End every task; workers that were being drained are closed, registered ones are left alone."""
        drained = list(self._drains.values())
        tasks = [*self._tasks.values(), *self._drains]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        for worker in drained:
            _close(worker)

    # ---- one worker

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
        deadline = self._clock() + self._options.worker_startup_timeout_secs
        tries = 0
        self._note(worker, "AddWorker", "processing")
        while True:
            problem = await self._try_to_inspect(worker)
            if problem is None:
                self._jobs.pop(worker.id, None)
                self._registry.set_status(worker, Status.READY)
                log.info("worker ready", worker=worker.url, runtime=worker.runtime, model=worker.model_id)
                return True
            tries += 1
            if self._clock() >= deadline and not self._give_up(worker, problem):
                return False
            if tries == 1:
                log.warn("worker not reachable yet", worker=worker.url, problem=problem)
            self._note(worker, "AddWorker", self._jobs[worker.id].status, problem)
            await asyncio.sleep(min(tries * self._retry_step_s, self._options.worker_startup_check_interval))

    def _give_up(self, worker: Worker, problem: str) -> bool:
        """The start-up time is over. True: keep trying all the same."""
        if worker.status is not Status.FAILED:
            log.error("worker failed to start", worker=worker.url, problem=problem)
            self._registry.set_status(worker, Status.FAILED)
        self._note(worker, "AddWorker", "failed", problem)
        return not self._options.remove_unhealthy_workers

    async def _try_to_inspect(self, worker: Worker) -> str | None:
        """Probe once and take over what was found; the problem, if that failed."""
        spec = self._specs[worker.id]
        try:
            async with self._slots:
                found = await self._prober.inspect(worker, spec.engine, spec.models)
        except EngineError as error:
            return str(error)
        worker.runtime = found.runtime
        # A label may have been set while the probes ran.
        worker.labels = {**found.labels, **(self._specs[worker.id].labels or {})}
        if worker.cards != found.cards:
            worker.set_cards(found.cards)
            self._registry.refresh(worker)
        return None

    async def _revive(self, worker: Worker) -> bool:
        """An engine that came back is inspected like a new one: it may serve another model now."""
        return await self._try_to_inspect(worker) is None

    async def _drain(self, worker: Worker, settle_s: float) -> None:
        await asyncio.sleep(settle_s)
        self._forget(worker)
        end = self._clock() + self._drain_limit_s
        # The load is a plain number, kept cheap for the requests that count in it.
        while worker.load > 0 and self._clock() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        _close(worker)
        log.info("worker removed", worker=worker.url)

    def _forget(self, worker: Worker) -> None:
        self._registry.remove(worker)
        self._specs.pop(worker.id, None)
        self._jobs.pop(worker.id, None)

    def _note(self, worker: Worker, job_type: str, status: str, message: str | None = None) -> None:
        self._jobs[worker.id] = Job(job_type, worker.url, status, int(time.time()), message)

    # ---- construction

    def _make(self, target: WorkerUrl, spec: WorkerSpec) -> Worker:
        is_external = spec.engine == EXTERNAL
        return Worker(
            target,
            self._make_breaker(str(target), spec),
            health=self._health_options(spec),
            cards=spec.models or (),
            runtime=spec.engine,
            api_key=spec.api_key,
            provider=provider_name(spec.provider, target.host) if is_external else spec.provider,
            labels=spec.labels,
            priority=50 if spec.priority is None else spec.priority,
            cost=1.0 if spec.cost is None else spec.cost,
        )

    def _health_options(self, spec: WorkerSpec) -> HealthOptions:
        options = self._options
        general = HealthOptions(
            endpoint=options.health_check_endpoint,
            timeout_s=options.health_check_timeout_secs,
            interval_s=options.health_check_interval_secs,
            success_threshold=options.health_success_threshold,
            failure_threshold=options.health_failure_threshold,
            disabled=options.disable_health_check,
        )
        return spec.health.over(general) if spec.health is not None else general

    def _make_breaker(self, url: str, spec: WorkerSpec) -> Breaker:
        own, general = spec.resilience, self._breaker

        def on_change(old: State, new: State) -> None:
            log.warn("breaker changed", worker=url, old=old.name.lower(), new=new.name.lower())
            if self._on_breaker is not None:
                self._on_breaker(url, old, new)

        def pick(name: str, default: float) -> float:
            value = getattr(own, name, None)
            return default if value is None else float(value)

        disabled = own.disable_circuit_breaker if own is not None else None
        return Breaker(
            int(pick("cb_failure_threshold", general.cb_failure_threshold)),
            int(pick("cb_success_threshold", general.cb_success_threshold)),
            pick("cb_timeout_secs", general.cb_timeout_duration_secs),
            pick("cb_window_secs", general.cb_window_duration_secs),
            not (general.disable_circuit_breaker if disabled is None else disabled),
            on_change,
        )


def _close(worker: Worker) -> None:
    if worker.backend is not None:
        worker.backend.close()
        worker.backend = None
