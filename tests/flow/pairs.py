"""Flows through pairs: the first workers prefill, the others decode."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Coroutine
from typing import Any

from smg import errors
from smg._fast.exchange import Exchange
from smg.api.call import Call
from smg.backends.http import HttpBackend
from smg.backends.pair import PairBackend
from smg.config.model import Retry
from smg.gateway.pair import Legs, PairRouter
from smg.gateway.route import Router
from smg.gateway.turns import Turns
from smg.policies.round_robin import RoundRobin
from smg.workers.worker import DECODE, PREFILL, Backend, Handover, Worker
from tests.flow.conversation import Flow, WorkerEnd

QUEUE_TIMEOUT_S = 60.0
MakePair = Callable[..., "PairFlow"]


class PairFlow(Flow):
    """`limit`: requests in flight that a prefill worker may have; `queue`: how many may wait."""

    def __init__(
        self,
        prefills: int = 1,
        decodes: int = 1,
        *,
        runtime: str = "sglang",
        connector: str | None = None,
        limit: int | None = None,
        queue: int = 0,
        **options: Any,
    ) -> None:
        self._prefills = prefills
        self._runtime = runtime
        self._connector = connector
        self._limit = limit
        self._queue = queue
        self.current: Exchange | None = None
        """The exchange that was sent last."""
        super().__init__(prefills + decodes, **options)

    def interrupt(self) -> None:
        assert self.current is not None
        self.act(self.current.interrupt)

    @property
    def prefill(self) -> WorkerEnd:
        return self.ends[0]

    @property
    def decode(self) -> WorkerEnd:
        return self.ends[self._prefills]

    def _prepare(self, worker: Worker, number: int) -> None:
        worker.runtime = self._runtime
        worker.worker_type = PREFILL if number < self._prefills else DECODE
        worker.handover = Handover(9000 + number, self._connector, kv_engine_id=f"e{number}")

    def _attach(self, worker: Worker) -> Backend:
        http = super()._attach(worker)
        assert isinstance(http, HttpBackend)
        return _Noting(worker, http, self) if worker.worker_type == DECODE else http

    def _router(self, retry: Retry) -> Router:
        late = functools.partial(errors.pd_prefill_queue_timeout, QUEUE_TIMEOUT_S)
        shed = functools.partial(errors.worker_overload_protection_shed, "", 1)
        legs = Legs(
            Router(self.registry, RoundRobin, retry),
            Router(self.registry, RoundRobin, retry),
            self._limit,
            Turns(self._queue, QUEUE_TIMEOUT_S, errors.pd_prefill_queue_full, late),
            Turns(10, 30, shed, shed),
        )
        return PairRouter(self.registry, RoundRobin, retry, legs)


class _Noting(PairBackend):
    def __init__(self, worker: Worker, http: HttpBackend, flow: PairFlow) -> None:
        super().__init__(worker, http)
        self._flow = flow

    def forward(self, x: Exchange, call: Call, lease: Any) -> Coroutine[Any, Any, bool]:
        self._flow.current = x
        return super().forward(x, call, lease)


def bodies(end: WorkerEnd) -> list[dict[str, Any]]:
    """What a worker was sent."""
    return [json.loads(body) for _, body in end.requests]


def loads(flow: PairFlow) -> list[int]:
    return [end.worker.load for end in flow.ends]


def failures(flow: PairFlow) -> list[int]:
    return [end.worker.breaker.consecutive_failures for end in flow.ends]
