"""The breaker against a slow, plain model, and its transitions one by one."""

from hypothesis import given
from hypothesis import strategies as st

from smg.workers.breaker import FAILURE_STATUSES, Breaker, State


class PlainBreaker:
    """The rules written down for reading: the whole history, looked through every time."""

    def __init__(self, failures: int, successes: int, timeout_s: float, window_s: float) -> None:
        self.limits = (failures, successes, timeout_s, window_s)
        self.state = State.CLOSED
        self.since = 0.0
        self.probe: float | None = None
        self.results: list[tuple[bool, float]] = []

    def allows(self, now: float) -> bool:
        if self.state is State.CLOSED:
            return True
        if self.state is State.OPEN:
            self.since = min(self.since, now)
            if now - self.since < self.limits[2]:
                return False
            self.state, self.results = State.HALF_OPEN, []
        elif self.probe is not None:
            self.probe = min(self.probe, now)
            if now - self.probe < self.limits[2]:
                return False
        self.probe = now
        return True

    def record(self, ok: bool, now: float) -> None:
        if self.state is State.OPEN:
            return
        self.results.append((ok, now))
        if self.state is State.HALF_OPEN:
            if not ok:
                self.open(now)
            elif len(self.results) >= self.limits[1]:
                self.state, self.results = State.CLOSED, []
            self.probe = None
            return
        streak: list[float] = []
        for good, at in self.results:
            streak = [] if good else [*streak, at]
            while streak and at - streak[0] > self.limits[3]:
                streak.pop(0)
        if len(streak) >= self.limits[0]:
            self.open(now)

    def open(self, now: float) -> None:
        self.state, self.since, self.probe, self.results = State.OPEN, now, None, []


steps = st.lists(
    st.tuples(st.sampled_from(["ask", "good", "bad", "release"]), st.integers(-3, 8)), max_size=60
)


@given(steps, st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 12))
def test_breaker_follows_the_model(
    script: list[tuple[str, int]], failures: int, successes: int, timeout_s: int, window_s: int
) -> None:
    breaker = Breaker(failures, successes, timeout_s, window_s, True)
    plain = PlainBreaker(failures, successes, timeout_s, window_s)
    now = 100.0
    for what, passed in script:
        now += passed
        if what == "ask":
            seen = breaker.would_allow(now)
            assert breaker.allows(now) == seen == plain.allows(now)
        elif what == "release":
            breaker.release()
            plain.probe = None
        else:
            breaker.record(what == "good", now)
            plain.record(what == "good", now)
        assert breaker.state is plain.state


@given(steps, st.integers(-1000, 1000))
def test_it_is_never_shut_for_good(script: list[tuple[str, int]], leap: int) -> None:
    breaker = Breaker(2, 2, 5, 10, True)
    now = 0.0
    for what, passed in script:
        now += passed
        breaker.allows(now) if what == "ask" else breaker.record(what == "good", now)
    now += leap
    breaker.allows(now)
    assert breaker.allows(now + 5)


def test_opens_probes_and_closes() -> None:
    seen: list[tuple[State, State]] = []
    breaker = Breaker(2, 2, 10, 100, True, lambda old, new: seen.append((old, new)))
    breaker.record(False, 0)
    assert breaker.consecutive_failures == 1
    breaker.record(False, 1)
    assert not breaker.allows(10.9)
    assert breaker.allows(11)
    assert not breaker.allows(11)
    breaker.record(True, 12)
    assert breaker.state is State.HALF_OPEN
    assert breaker.allows(12)
    breaker.record(True, 13)
    assert seen == [
        (State.CLOSED, State.OPEN),
        (State.OPEN, State.HALF_OPEN),
        (State.HALF_OPEN, State.CLOSED),
    ]
    assert breaker.consecutive_failures == 0


def test_failed_probe_opens_again() -> None:
    breaker = Breaker(1, 1, 10, 100, True)
    breaker.record(False, 0)
    assert breaker.allows(10)
    breaker.record(False, 11)
    assert not breaker.allows(20)
    assert breaker.allows(21)


def test_success_resets_the_count() -> None:
    breaker = Breaker(2, 1, 10, 100, True)
    for now in range(10):
        breaker.record(False, now)
        breaker.record(True, now)
    assert breaker.state is State.CLOSED


def test_old_failures_do_not_count() -> None:
    breaker = Breaker(2, 1, 10, 5, True)
    breaker.record(False, 0)
    breaker.record(False, 6)
    assert breaker.state is State.CLOSED
    breaker.record(False, 11)
    assert breaker.state is State.OPEN


def test_lost_probe_does_not_block() -> None:
    breaker = Breaker(1, 1, 10, 100, True)
    breaker.record(False, 0)
    assert breaker.allows(10)
    assert not breaker.allows(19)
    assert breaker.allows(20)
    breaker.release()
    assert breaker.allows(20)


def test_disabled_never_opens() -> None:
    breaker = Breaker(1, 1, 10, 100, False)
    for now in range(50):
        breaker.record(False, now)
        assert breaker.allows(now)
    assert breaker.consecutive_failures == 0


def test_statuses_that_count() -> None:
    assert {status for status in range(100, 600) if status in FAILURE_STATUSES} == {408, 500, 502, 503, 504}


def test_outcomes_in_a_row_are_counted_in_every_state() -> None:
    breaker = Breaker(2, 2, 10, 100, True)

    def counts() -> tuple[int, int]:
        return breaker.consecutive_successes, breaker.consecutive_failures

    for _ in range(3):
        breaker.record(True, 0)
    assert counts() == (3, 0)
    breaker.record(False, 1)
    breaker.record(False, 1)
    assert (breaker.state, counts()) == (State.OPEN, (0, 2))
    assert breaker.allows(11)
    breaker.record(True, 11)
    assert (breaker.state, counts()) == (State.HALF_OPEN, (1, 0))
    assert breaker.allows(11)
    breaker.record(False, 11)
    assert (breaker.state, counts()) == (State.OPEN, (0, 1))
    for now in range(21, 400, 10):
        assert breaker.allows(now)
        breaker.record(False, now)
    assert breaker.consecutive_failures <= 11  # those of the window
