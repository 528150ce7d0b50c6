"""Makes flows, and looks after each test whether anything is left of its exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from smg.config.model import DATA_PATHS
from tests.flow.conversation import ClientEnd, Flow
from tests.flow.pairs import MakePair, PairFlow

F = TypeVar("F", bound=Flow)

LEAVING = {
    "leaves": ClientEnd.leaves,
    "ends": ClientEnd.ends,
    "is cut": lambda client: client._flow.act(client._flow.front.abort_all),
}


@pytest.fixture(params=LEAVING)
def leave(request: pytest.FixtureRequest) -> Callable[[ClientEnd], None]:
    """How a client goes away."""
    return LEAVING[request.param]


@pytest.fixture(params=DATA_PATHS)
def data_path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def makers(kind: Callable[..., F], data_path: str) -> Iterator[Callable[..., F]]:
    """Makes flows of a kind until the test ends; then nothing may be left of them."""
    flows: list[F] = []

    def make(*args: Any, **options: Any) -> F:
        flows.append(kind(*args, data_path=data_path, **options))
        return flows[-1]

    yield make
    try:
        for flow in flows:
            flow.settled()
    finally:
        for flow in flows:
            flow.close()


@pytest.fixture
def make_flow(data_path: str) -> Iterator[Callable[..., Flow]]:
    yield from makers(Flow, data_path)


@pytest.fixture
def flow(make_flow: Callable[..., Flow]) -> Flow:
    """Two workers, default limits."""
    return make_flow()


@pytest.fixture
def make_pair(data_path: str) -> Iterator[MakePair]:
    yield from makers(PairFlow, data_path)
