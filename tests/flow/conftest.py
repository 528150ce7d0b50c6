"""Makes flows, and looks after each test whether anything is left of its exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.flow.conversation import Flow


@pytest.fixture
def make_flow() -> Iterator[Callable[..., Flow]]:
    flows: list[Flow] = []

    def make(*args: Any, **options: Any) -> Flow:
        flows.append(Flow(*args, **options))
        return flows[-1]

    yield make
    try:
        for flow in flows:
            flow.settled()
    finally:
        for flow in flows:
            flow.close()


@pytest.fixture
def flow(make_flow: Callable[..., Flow]) -> Flow:
    """Two workers, default limits."""
    return make_flow()
