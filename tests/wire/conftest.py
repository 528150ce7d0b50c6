"""Fixtures of the wire tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.wire.live_gateway import LiveGateway, running

Start = Callable[..., Awaitable[LiveGateway]]


@pytest.fixture
async def gateway() -> AsyncIterator[Start]:
    """`await gateway(worker, ..., option=value)` gives a running gateway; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def start(*workers: object, **options: object) -> LiveGateway:
            return await stack.enter_async_context(running(*workers, **options))  # type: ignore[arg-type]

        yield start
