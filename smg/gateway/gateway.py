"""The collaborators of an exchange, wired together by the composition root."""

from __future__ import annotations

import sys
from collections.abc import Callable

from smg import errors
from smg._fast.exchange import Exchange
from smg.gateway.admit import Admission
from smg.gateway.route import Router


class Gateway:
    """`pipe_above_bytes`: bodies larger than this may go to the worker unread; None: no body may."""

    __slots__ = ("_pipe_above", "admission", "record", "router")

    def __init__(
        self,
        admission: Admission,
        router: Router,
        record: Callable[[Exchange], None],
        pipe_above_bytes: int | None,
    ) -> None:
        self.admission = admission
        self.router = router
        self.record = record
        self._pipe_above = pipe_above_bytes if pipe_above_bytes is not None else sys.maxsize

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
        head = x.answer_head
        return errors.retry_of_status(head.status) if head is not None else errors.Retry.NO
