import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, final

from typing_extensions import disjoint_base

from smg._fast.exchange import Exchange, Reply
from smg._fast.limits import Counts, Limits

@final
class Front:
    limits: Limits
    counts: Counts
    open: set[Any]
    draining: bool
    def __init__(
        self,
        limits: Limits,
        counts: Counts,
        *,
        routes: dict[bytes, Any],
        serve: Callable[[Exchange], Coroutine[Any, Any, None]],
        refuse: Callable[[int, str], tuple[bytes, bytes, bytes]],
        make_fallback: Callable[[Any], asyncio.Protocol],
        lent: frozenset[bytes] = ...,
    ) -> None: ...
    def close_idle(self) -> None: ...
    def abort_all(self) -> None: ...
    @property
    def busy(self) -> int: ...

@disjoint_base
class Answering(Reply): ...
