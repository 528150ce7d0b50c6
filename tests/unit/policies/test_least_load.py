"""The lowest score of all, and nobody where all have too many waiting."""

from smg.policies.least_load import LeastLoad
from smg.policies.load import in_flight
from tests.unit.policies.fleet import ask, dice, fleet, report


def test_the_lightest_is_chosen() -> None:
    workers = fleet(3, loads=[2, 0, 1])
    assert LeastLoad(in_flight, 0, dice()).choose(workers, ask()) is workers[1]


def test_workers_with_too_many_waiting_are_left_out() -> None:
    workers = fleet(3, loads=[0, 1, 2])
    policy = LeastLoad(in_flight, 4, dice())
    workers[0].report = report(waiting_requests=4)
    assert policy.choose(workers, ask()) is workers[1]
    workers[1].report, workers[1].sent_since_report = report(waiting_requests=1), 3
    assert policy.choose(workers, ask()) is workers[2]
    workers[2].sent_since_report = 4
    assert policy.choose(workers, ask()) is None
