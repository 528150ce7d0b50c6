"""Fixtures of the wire tests; what needs a Redis is not collected where there is none (see .ci/run)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.wire.live_gateway import LiveGateway, running
from tests.wire.redis_server import REDIS

collect_ignore = [] if REDIS else ["test_shared_state.py"]

Start = Callable[..., Awaitable[LiveGateway]]


@pytest.fixture
async def gateway() -> AsyncIterator[Start]:
    """`await gateway(worker, ..., option=value)` gives a running gateway; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def start(*workers: object, **options: object) -> LiveGateway:
            return await stack.enter_async_context(running(*workers, **options))  # type: ignore[arg-type]

        yield start
