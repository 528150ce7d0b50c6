"""What all tests share: the event loop that the gateway runs on, and free ports."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code.
settings.register_profile("no clocks", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clocks")

# Below the range that outgoing connections take their ports from.
PORTS = (18000, 31999)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


# Below the 60 s of pytest-timeout, whose signal does not end a test that only waits: uvloop keeps it.
TEST_SECS = 50.0


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that waits for ever is ended by its own loop."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        marker = item.get_closest_marker("timeout")
        limit = marker.args[0] if marker is not None and marker.args else TEST_SECS
        item.obj = _bounded(item.obj, limit)


def _bounded(test: Callable[..., Coroutine[Any, Any, None]], seconds: float) -> Any:
    @functools.wraps(test)
    async def within(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(seconds or None):
            await test(*args, **kwargs)

    return within


def find_free_port() -> int:
    """A port nobody listens on; somebody else could still take it before it is used."""
    source = random.SystemRandom()
    while True:
        port = source.randint(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@pytest.fixture
def free_port() -> int:
    return find_free_port()


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """Gives as many different free ports as asked for."""

    def find(count: int) -> list[int]:
        ports: set[int] = set()
        while len(ports) < count:
            ports.add(find_free_port())
        return sorted(ports)

    return find
