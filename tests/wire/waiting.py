"""Waiting for something that happens in the background: always for a condition, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

BOUND_S = 20.0
"""How long a test waits for what must happen before it fails."""


async def until(condition: Callable[[], object], what: str = "the condition holds") -> None:
    try:
        async with asyncio.timeout(BOUND_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"not within {BOUND_S:g} s: {what}") from None


async def happened(event: asyncio.Event) -> None:
    async with asyncio.timeout(BOUND_S):
        await event.wait()
