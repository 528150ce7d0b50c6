"""What all tests share: the event loop that the gateway runs on, and free ports."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Mapping

import pytest
import uvloop

# Below the range that outgoing connections take their ports from.
PORTS = (18000, 31999)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


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
