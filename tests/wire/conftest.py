"""Fixtures of the wire tests; what needs a Redis is not collected where there is none (see .ci/run)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from smg.config.model import DATA_PATHS
from tests.wire.live_gateway import LiveGateway, running
from tests.wire.redis_server import REDIS

collect_ignore = [] if REDIS else ["test_shared_state.py"]

Start = Callable[..., Awaitable[LiveGateway]]

# Modules, and tests of modules, that play on both data paths; test_data_path.py compares their bytes.
BOTH_PATHS = frozenset(
    {
        "test_audio",
        "test_bodies.test_a_body_that_ends_early_is_no_request",
        "test_bodies.test_a_piped_body_reaches_the_worker_before_its_end",
        "test_bodies.test_a_piped_body_whose_worker_dies_is_502_and_not_repeated",
        "test_bodies.test_a_worker_that_answers_a_piped_body_early",
        "test_bodies.test_bodies_of_every_size_arrive_whole",
        "test_bodies.test_expect_is_answered_when_the_body_is_wanted",
        "test_bodies.test_expect_is_not_answered_to_who_may_not_in",
        "test_bodies.test_too_large_is_413_at_once",
        "test_headers",
        "test_leaving",
        "test_pairs",
        "test_pipelining",
        "test_pressure",
        "test_queue",
        "test_streams",
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    test = f"{module}.{metafunc.function.__name__}"
    if "gateway" in metafunc.fixturenames and not BOTH_PATHS.isdisjoint((module, test)):
        metafunc.parametrize("gateway", DATA_PATHS, indirect=True)


@pytest.fixture
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Start]:
    """`await gateway(worker, ..., option=value)` gives a running gateway; it ends with the test."""
    data_path = getattr(request, "param", DATA_PATHS[0])
    async with AsyncExitStack() as stack:

        async def start(*workers: object, **options: object) -> LiveGateway:
            options = {"data_path": data_path, **options}
            return await stack.enter_async_context(running(*workers, **options))  # type: ignore[arg-type]

        yield start
