"""Waiting for what happens in the background: for a condition or an event, never for a time.

The one place of the tests that sleeps; `tests/test_house.py` holds the others to that.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

BOUND_S = 20.0
"""How long a test waits for what must happen before it fails."""
START_S = 30.0
"""The same for what another process does, whose start takes a while on a busy machine."""
_LOOK_S = 0.002
_LOOK_AT_PROCESS_S = 0.02


async def until(
    condition: Callable[[], object], what: str = "the condition holds", bound_s: float = BOUND_S
) -> None:
    """Look until a condition holds. It may be a coroutine function, such as one that asks a server."""
    try:
        async with asyncio.timeout(bound_s):
            while not await _value(condition):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise AssertionError(f"not within {bound_s:g} s: {what}") from None


async def _value(condition: Callable[[], object]) -> object:
    value = condition()
    return await value if inspect.isawaitable(value) else value


def wait_until(condition: Callable[[], object], what: str, bound_s: float = START_S) -> None:
    """The same without a loop, for what another process does."""
    end = time.monotonic() + bound_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {bound_s:g} s: {what}")
        time.sleep(_LOOK_AT_PROCESS_S)


async def happened(event: asyncio.Event) -> None:
    async with asyncio.timeout(BOUND_S):
        await event.wait()


async def turns(count: int = 1) -> None:
    """Let the loop go round: tasks just made begin, callbacks that are due run, no time passes.

    For tests without sockets, whose every step is due at once: bytes of a socket take any number of turns.
    """
    for _ in range(count):
        await asyncio.sleep(0)
