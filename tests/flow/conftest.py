"""Makes flows, and looks after each test whether anything is left of its exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.flow.conversation import ClientEnd, Flow
from tests.flow.pairs import MakePair, PairFlow

LEAVING = {
    "leaves": ClientEnd.leaves,
    "ends": ClientEnd.ends,
    "is cut": lambda client: client._flow.act(client._flow.front.abort_all),
}


@pytest.fixture(params=LEAVING)
def leave(request: pytest.FixtureRequest) -> Callable[[ClientEnd], None]:
    """How a client goes away."""
    return LEAVING[request.param]


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


@pytest.fixture
def make_pair() -> Iterator[MakePair]:
    flows: list[PairFlow] = []

    def make(*args: Any, **options: Any) -> PairFlow:
        flows.append(PairFlow(*args, **options))
        return flows[-1]

    yield make
    try:
        for flow in flows:
            flow.settled()
    finally:
        for flow in flows:
            flow.close()
