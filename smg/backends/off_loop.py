"""What takes long with a large body is done in a thread: to edit it, and to give its memory back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from smg._fast.freeing import free_texts
from smg.api.call import LARGE_BODY

T = TypeVar("T")

FREED_APART = 4 * 1024 * 1024
"""A text above this is freed in a thread."""


async def off_loop(size: int, work: Callable[[], T], limit: int = LARGE_BODY) -> T:
    """The result of some work with a text of `size` bytes; up to `limit` the loop does it at once."""
    if size <= limit:
        return work()
    return await asyncio.get_running_loop().run_in_executor(None, work)


def free_apart(texts: list[bytes]) -> None:
    """Take the texts away from the caller, whose last ones they should be, and free them."""
    if max(map(len, texts), default=0) > FREED_APART:
        asyncio.get_running_loop().run_in_executor(None, free_texts, texts)
    else:
        texts.clear()
