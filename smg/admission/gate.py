"""The concurrency limit: so many requests at work, the others wait in one line or are turned away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from smg import errors
from smg.admission.bucket import Bucket
from smg.admission.line import Line, Waiter
from smg.admission.permits import Asker

_CLOSED = -1


class Gate:
    """`limit`: None is no limit. `per_second`: so many requests a second, in bursts of at most `limit`.

    All permits are alike, so the gate is the permit.
    """

    __slots__ = ("_bound", "_bucket", "_loop", "_timer", "allowed", "in_flight", "limit", "line", "rejected")

    def __init__(
        self,
        limit: int | None,
        line_size: int,
        line_timeout_s: float,
        loop: asyncio.AbstractEventLoop,
        per_second: int | None = None,
    ) -> None:
        self.limit = sys.maxsize if limit is None else limit
        self.line = Line(line_size, line_timeout_s, loop)
        self.in_flight = 0
        self.allowed = 0
        self.rejected = 0
        self._loop = loop
        self._bucket = Bucket(limit or per_second, per_second, loop.time()) if per_second else None
        self._timer: asyncio.TimerHandle | None = None
        # What `take` compares with: the limit, or `_CLOSED` when it is not that simple.
        self._bound = self.limit if self._bucket is None else _CLOSED

    def take(self, asker: Asker | None = None) -> Gate | None:
        if self.in_flight < self._bound:
            self.in_flight += 1
            self.allowed += 1
            return self
        if self._bucket is not None and not self.line and self._is_open():
            return self._enter()
        return None

    async def wait(self, asker: Asker | None = None) -> Gate:
        line = self.line
        if line.is_full:
            self.rejected += 1
            raise errors.admission_queue_full(may_wait=line.size > 0)
        waiter = line.join()
        self._bound = _CLOSED
        self._wake_later()
        try:
            came = await waiter.future
        except BaseException:
            self._forget(waiter)
            raise
        if not came:
            self.rejected += 1
            self._let_in()
            raise errors.admission_queue_timeout()
        return self

    def release(self) -> None:
        self.in_flight -= 1
        if self.line:
            self._let_in()

    def snapshot(self) -> Mapping[str, object]:
        return {
            "in_flight": self.in_flight,
            "limit": None if self.limit == sys.maxsize else self.limit,
            "waiting": len(self.line),
            "queue_size": self.line.size,
        }

    def close(self) -> None:
        self.line.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_open(self) -> bool:
        """May one more enter? Takes its part of the rate if so."""
        if self.in_flight >= self.limit:
            return False
        return self._bucket is None or self._bucket.take(1, self._loop.time()) <= 0

    def _enter(self) -> Gate:
        self.in_flight += 1
        self.allowed += 1
        return self

    def _let_in(self) -> None:
        """Give every permit that is to be had to those in front."""
        line = self.line
        while line and self._is_open():
            if line.serve(self) is None:
                if self._bucket is not None:
                    self._bucket.give(1, self._loop.time())
                break
            self._enter()
        if line:
            self._wake_later()
        elif self._bucket is None:
            self._bound = self.limit

    def _wake_later(self) -> None:
        """When the rate alone keeps the first one out, come back when it is let in."""
        if self._bucket is None or self._timer is not None or self.in_flight >= self.limit:
            return
        wait_s = self._bucket.wait_s(1, self._loop.time())
        self._timer = self._loop.call_later(wait_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._let_in()

    def _forget(self, waiter: Waiter) -> None:
        """A client left while it waited, or in the turn in which its permit came."""
        if not self.line.leave(waiter) and waiter.permit is not None:
            self.release()
        self._let_in()
