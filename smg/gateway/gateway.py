"""The collaborators of an exchange, wired together by the composition root."""

from __future__ import annotations

import sys

from smg import errors
from smg._fast.exchange import Exchange
from smg.admission.permits import Permits
from smg.gateway.admit import Admission
from smg.gateway.explain import Explainer
from smg.gateway.record import Recorder
from smg.gateway.route import Router
from smg.gateway.spend import Spending


class Gateway:
    """`pipe_above_bytes`: bodies larger than this may go to the worker unread; None: no body may.
    `spending`: tenants have budgets, and every body is read."""

    __slots__ = ("_pipe_above", "admission", "explain", "permits", "record", "router", "spending")

    def __init__(
        self,
        admission: Admission,
        router: Router,
        record: Recorder,
        pipe_above_bytes: int | None,
        permits: Permits,
        explain: Explainer,
        spending: Spending | None = None,
    ) -> None:
        self.admission = admission
        self.router = router
        self.record = record
        self.permits = permits
        self.explain = explain
        self.spending = spending
        if spending is not None or pipe_above_bytes is None:
            pipe_above_bytes = sys.maxsize
        self._pipe_above = pipe_above_bytes

    def may_pipe(self, x: Exchange) -> bool:
        """May the body go to the worker as it arrives, unparsed? Nothing of it is checked then."""
        router = self.router
        return (
            x.head.content_length > self._pipe_above
            and x.route.may_pipe
            and (not router.reads_body or router.has_hint(x.head.get))
            and router.serves_one_model
            and x.head.content_length > 0
        )

    def retry_of(self, x: Exchange) -> errors.Retry:
        """May the request be tried again after what its worker has answered?"""
        head = x.answer_head
        if head is None:
            return errors.Retry.NO
        return errors.retry_of_status(head.status, x.worker.retryable)
