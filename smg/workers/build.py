"""From a specification to a worker: what the specification leaves open comes from the configuration."""

from __future__ import annotations

from collections.abc import Callable

from smg.config import model
from smg.config.specs import WorkerUrl
from smg.telemetry import logs
from smg.workers.breaker import Breaker, State
from smg.workers.spec import WorkerSpec, provider_name
from smg.workers.worker import EXTERNAL, Connections, Contact, HealthOptions, Thresholds, Worker

log = logs.get(__name__)

PRIORITY = 50
COST = 1.0


class Builder:
    """`on_breaker` is told the name of a worker whose breaker changed, and (old, new)."""

    def __init__(
        self,
        workers: model.Workers,
        breaker: model.Breaker,
        on_breaker: Callable[[str, State, State], None] | None = None,
        protection: model.Protection | None = None,
        contact: Contact | None = None,
    ) -> None:
        self._options = workers
        self._contact = contact
        protection = protection or model.Protection()
        self._thresholds = Thresholds(protection.waiting_requests, protection.token_usage)
        self._breaker = breaker
        self._on_breaker = on_breaker

    def make(self, target: WorkerUrl, spec: WorkerSpec) -> Worker:
        def on_breaker(old: State, new: State) -> None:
            # A rank gets its name later than its breaker.
            self._breaker_changed(worker, old, new)

        worker = Worker(
            target,
            self._make_breaker(spec, on_breaker),
            cards=spec.models or (),
            runtime=spec.engine,
            labels=spec.labels,
        )
        worker.worker_type = spec.worker_type
        worker.contact = self._contact
        self.apply(spec, worker)
        return worker

    def apply(self, spec: WorkerSpec, worker: Worker) -> None:
        """All of a specification that may change while the worker serves."""
        is_external = spec.engine == EXTERNAL
        worker.health = self._health_options(spec)
        worker.api_key = spec.api_key
        worker.provider = provider_name(spec.provider, worker.target.host) if is_external else spec.provider
        worker.priority = PRIORITY if spec.priority is None else spec.priority
        worker.cost = COST if spec.cost is None else spec.cost
        worker.handover = spec.handover
        worker.load_interval_s = spec.load_monitor_interval_secs
        general = self._thresholds
        worker.thresholds = spec.overload.over(general) if spec.overload is not None else general
        worker.retries = spec.resilience.retries if spec.resilience is not None else {}
        worker.retryable = spec.resilience.retryable if spec.resilience is not None else None
        worker.connections = spec.http_pool.connections if spec.http_pool is not None else Connections()
        if worker.backend is not None:
            worker.backend.tune()

    def _breaker_changed(self, worker: Worker, old: State, new: State) -> None:
        log.warn("breaker changed", worker=worker.url, old=old.name.lower(), new=new.name.lower())
        if self._on_breaker is not None:
            self._on_breaker(worker.url, old, new)

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

    def _make_breaker(self, spec: WorkerSpec, on_change: Callable[[State, State], None]) -> Breaker:
        own, general = spec.resilience, self._breaker

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
