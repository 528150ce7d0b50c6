"""The first of the list, however busy."""

from smg.policies.passthrough import Passthrough
from tests.unit.policies.fleet import ask, fleet


def test_the_first_is_chosen() -> None:
    workers = fleet(3, loads=[100, 0, 0])
    assert all(Passthrough().choose(workers, ask()) is workers[0] for _ in range(5))
