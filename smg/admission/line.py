"""Requests that wait for a permit: first in, first out, no more than a number and no longer than a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from smg._fast.limits import Spread


class Waiter:
    """One request in a line since `since`. `future` tells whether it got what it waits for or is too late;
    `permit` is that, `what` is whatever the line's owner keeps with it."""

    __slots__ = ("future", "permit", "since", "what")

    def __init__(self, future: asyncio.Future[bool], since: float, what: object) -> None:
        self.future = future
        self.since = since
        self.what = what
        self.permit: object = None


class Line:
    """`on_impatient` is called when the head has waited `patience_s`. All wait equally long, so that one
    timer, for the head, is enough."""

    __slots__ = ("_loop", "_on_impatient", "_patience_s", "_timer", "_waiters", "size", "timeout_s", "waits")

    def __init__(
        self,
        size: int,
        timeout_s: float,
        loop: asyncio.AbstractEventLoop,
        patience_s: float | None = None,
        on_impatient: Callable[[], object] | None = None,
    ) -> None:
        self.size = size
        self.timeout_s = timeout_s
        self.waits = Spread()
        self._loop = loop
        self._patience_s = patience_s
        self._on_impatient = on_impatient
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def is_full(self) -> bool:
        return len(self._waiters) >= self.size

    @property
    def head(self) -> Waiter | None:
        """Who is next."""
        return next(iter(self._waiters)) if self._waiters else None

    @property
    def is_impatient(self) -> bool:
        """Has the head waited so long that it goes before others?"""
        head = self.head
        return (
            head is not None
            and self._patience_s is not None
            and self._loop.time() - head.since >= self._patience_s
        )

    def join(self, what: object = None) -> Waiter:
        """A place at the end; the line must not be full."""
        waiter = Waiter(self._loop.create_future(), self._loop.time(), what)
        self._waiters[waiter] = None
        if self._timer is None:
            self._arm()
        return waiter

    def serve(self, permit: object) -> Waiter | None:
        """Give the head, which leaves the line, what it waits for; None when nobody waits any more."""
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.future.done():  # else its client has just left
                waiter.permit = permit
                waiter.future.set_result(True)
                self.waits.add(self._loop.time() - waiter.since)
                self._rest()
                return waiter
        self._rest()
        return None

    def leave(self, waiter: Waiter) -> bool:
        """Out of the line; was it still in it?"""
        was_there = self._waiters.pop(waiter, self) is not self
        self._rest()
        return was_there

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rest(self) -> None:
        """Nobody waits: no timer is needed. Otherwise the one there is fires early rather than late."""
        if not self._waiters:
            self.close()

    def _arm(self) -> None:
        head = self.head
        if head is None:
            return
        due = head.since + self.timeout_s
        if self._patience_s is not None and not self.is_impatient:
            due = min(due, head.since + self._patience_s)
        self._timer = self._loop.call_at(due, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now = self._loop.time()
        while (head := self.head) is not None and now - head.since >= self.timeout_s:
            del self._waiters[head]
            if not head.future.done():
                head.future.set_result(False)
        if self.is_impatient and self._on_impatient is not None:
            self._on_impatient()
        if self._timer is None:
            self._arm()
