"""Which attributes of the routing and admission objects are which metrics."""

from __future__ import annotations

from collections.abc import Iterable

from smg.gateway.pair import Legs, PairRouter
from smg.gateway.route import Router
from smg.gateway.turns import Turns
from smg.policies.choices import RATIO_BOUNDS
from smg.telemetry.exposition import Sample
from smg.telemetry.families import FAMILIES
from smg.telemetry.metrics import Metrics, Reader
from smg.workers.load import LoadMonitor
from smg.workers.overload import Overload
from smg.workers.register import Registrar
from smg.workers.worker import DECODE, PREFILL

_BRANCHES = "_policy_branch_total"


def plug_router(metrics: Metrics, router: Router) -> None:
    choices = router.choices
    for family in FAMILIES:
        if family.name.endswith(_BRANCHES):
            metrics.plug(family.name, _branches_of(router, family.name))
    metrics.plug_rows("smg_cache_aware_match_ratio", RATIO_BOUNDS, lambda: [((), choices.ratios.copy())])
    metrics.plug("smg_worker_prompt_bytes_total", lambda: _held(router, 0))
    metrics.plug("smg_worker_matched_bytes_total", lambda: _held(router, 1))
    metrics.plug("smg_retry_budget_exhausted_total", lambda: [((), router.budget.denied)])
    if isinstance(router, PairRouter):
        plug_pairs(metrics, router.legs)
    overload, warmup = router.overload, router.warmup
    if warmup is not None:
        metrics.plug("smg_workers_warming", lambda: [((), len(warmup.cold))])
    if overload is not None:
        metrics.plug("smg_worker_overload_shed_total", lambda: _shed(router, overload))
        metrics.plug("smg_worker_overload_fallback_total", lambda: [(("selection",), overload.fallbacks)])
        metrics.plug("smg_workers_overloaded", lambda: _overloaded(router))


def _shed(router: Router, overload: Overload) -> Iterable[Sample]:
    yield ("selection",), overload.shed
    if isinstance(router, PairRouter):
        turns = router.legs.decode_turns
        yield ("pd_admission",), turns.refused + turns.expired


def plug_pairs(metrics: Metrics, legs: Legs) -> None:
    turns = {PREFILL: legs.prefill_turns, DECODE: legs.decode_turns}
    metrics.plug("smg_pd_prefill_requests_total", lambda: _prefilled(legs))
    metrics.plug("smg_worker_selection_total", lambda: _selected(legs, metrics.policies.get(PREFILL, "")))
    metrics.plug("smg_pd_waiting", lambda: [((leg,), one.waiting) for leg, one in turns.items()])
    metrics.plug("smg_pd_refused_total", lambda: _refused(turns))


def _prefilled(legs: Legs) -> Iterable[Sample]:
    for worker, counts in legs.prefilled.items():
        for model, count in counts.items():
            yield (worker.url, model), count


def _selected(legs: Legs, policy: str) -> Iterable[Sample]:
    for model, count in legs.selected.items():
        yield (PREFILL, "http", model, policy), count


def _refused(turns: dict[str, Turns]) -> Iterable[Sample]:
    for leg, one in turns.items():
        yield (leg, "queue_full"), one.refused
        yield (leg, "queue_timeout"), one.expired


def plug_probes(metrics: Metrics, registrar: Registrar) -> None:
    metrics.plug("smg_worker_health_checks_total", registrar.checks.items)


def plug_loads(metrics: Metrics, monitor: LoadMonitor) -> None:
    polls = monitor.polls
    metrics.plug(
        "smg_engine_load_polls_total", lambda: [((url, "poll"), count) for url, count in polls.items()]
    )


def _branches_of(router: Router, name: str) -> Reader:
    policy = name.removeprefix("smg_").removesuffix(_BRANCHES)

    def read() -> Iterable[Sample]:
        for (owner, branch), count in router.choices.branches.items():
            if owner == policy:
                yield (branch,), count

    return read


def _held(router: Router, member: int) -> Iterable[Sample]:
    for worker, row in router.choices.held.items():
        yield (worker.url,), row[member]


def _overloaded(router: Router) -> Iterable[Sample]:
    counts: dict[tuple[str, ...], int] = {}
    for worker in router.overload.workers if router.overload is not None else ():
        for model in worker.models:
            counts[(model,)] = counts.get((model,), 0) + 1
    return counts.items()
