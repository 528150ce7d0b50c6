"""Requests that wait until there is room for them at some worker: a queue with a bound and a longest wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from smg.errors import GatewayError

MayGo = Callable[[], bool]


class Turns:
    """`size`: how many may wait; `full` and `late` make the errors of those who may not, or not longer.

    Who has been let through is expected to take its place before the loop's next turn; only then is the
    next one looked for. `look_s`: room may also come without `freed`, so it is looked for at this interval.
    `refused` and `expired` count those who did not get through.
    """

    def __init__(
        self,
        size: int,
        timeout_s: float,
        full: Callable[[], GatewayError],
        late: Callable[[], GatewayError],
        look_s: float = 1.0,
    ) -> None:
        self._size = size
        self._timeout_s = timeout_s
        self._full = full
        self._late = late
        self._look_s = look_s
        self._waiting: dict[asyncio.Future[bool], tuple[object, MayGo]] = {}
        self._is_one_going = False
        self._looking: asyncio.TimerHandle | None = None
        self.refused = 0
        self.expired = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def wait(self, may_go: MayGo, kind: object = None) -> None:
        """Return when `may_go` says yes, and those before have gone. To all of a `kind` it says the same."""
        if self._waiting:
            self.freed()
        if not self._is_one_going and may_go():
            return
        if len(self._waiting) >= self._size or self._timeout_s <= 0:
            self.refused += 1
            raise self._full()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting[turn] = (may_go if kind is None else kind, may_go)
        timer = loop.call_later(self._timeout_s, _settle, turn, False)
        self._look_later(loop)
        try:
            went = await turn
        finally:
            timer.cancel()
            del self._waiting[turn]
            if turn.done() and not turn.cancelled() and turn.result():
                loop.call_soon(self._gone)
        if not went:
            self.expired += 1
            raise self._late()

    def freed(self) -> None:
        """There may be room: let the first go for whom there is."""
        if self._is_one_going:
            return
        refused: set[object] = set()
        for turn, (kind, may_go) in self._waiting.items():
            if kind in refused or turn.done():
                continue
            if may_go():
                self._is_one_going = True
                turn.set_result(True)
                return
            refused.add(kind)

    def _gone(self) -> None:
        self._is_one_going = False
        self.freed()

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._looking is None:
            self._looking = loop.call_later(self._look_s, self._look)

    def _look(self) -> None:
        self._looking = None
        if self._waiting:
            self.freed()
            self._look_later(asyncio.get_running_loop())


def _settle(turn: asyncio.Future[bool], result: bool) -> None:
    if not turn.done():
        turn.set_result(result)
