"""The simulated engine's time model, on a clock that moves when told."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import pytest

from smg.sim.prefix_cache import BLOCK_BYTES, PrefixCache
from smg.sim.schedule import Scheduler


class Timer:
    def __init__(self, run: Callable[[], object]) -> None:
        self.run = run
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """A loop whose time stands still between timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer:
        timer = Timer(lambda: callback(*args))
        heapq.heappush(self._timers, (self.now + delay, next(self._order), timer))
        return timer

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        return self.call_later(0.0, callback, *args)

    def run_until(self, end: float) -> None:
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                timer.run()
        self.now = end

    @property
    def pending(self) -> int:
        return sum(not timer.is_cancelled for *_, timer in self._timers)


class Job:
    def __init__(self, clock: Clock, prompt_tokens: int, steps: int, is_stream: bool = True) -> None:
        self.prompts = [bytes(4 * prompt_tokens)]
        self.steps = steps
        self.is_stream = is_stream
        self.cached_tokens = 0
        self.written = 0
        self.is_blocked = False
        self.log: list[tuple[float, object]] = []
        self._clock = clock

    @property
    def outputs(self) -> list[bytes]:
        return [self.prompts[0] + b"answer" * self.steps]

    def start(self) -> None:
        self.log.append((self._clock.now, "start"))

    def write(self, upto: int) -> None:
        while self.written < upto and not self.is_blocked:
            self.written += 1
            self.log.append((round(self._clock.now, 6), self.written))

    def finish(self) -> None:
        self.log.append((round(self._clock.now, 6), "finish"))

    @property
    def finished_at(self) -> float | None:
        return self.log[-1][0] if self.log and self.log[-1][1] == "finish" else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(
    clock: Clock,
    *,
    prefill_tps: float = 0,
    decode_tps: float = 0,
    max_running: int = 8,
    max_waiting: int = 8,
    cache_tokens: int = 0,
) -> Scheduler:
    return Scheduler(
        clock,
        PrefixCache(cache_tokens),
        prefill_tps=prefill_tps,
        decode_tps=decode_tps,
        max_running=max_running,
        max_waiting=max_waiting,
    )


def settled(scheduler: Scheduler, clock: Clock) -> None:
    assert (scheduler.running, scheduler.waiting, scheduler.used_tokens, clock.pending) == (0, 0, 0, 0)


def test_without_rates_everything_is_done_at_once(clock: Clock) -> None:
    scheduler = make(clock)
    whole, stream = Job(clock, 10, 3, is_stream=False), Job(clock, 10, 3)
    scheduler.submit(whole)
    assert whole.log == [(0, "finish")]
    scheduler.submit(stream)
    assert stream.written == 1  # one event each time the loop comes round
    clock.run_until(0)
    assert stream.log == [(0, "start"), (0, 1), (0, 2), (0, 3), (0, "finish")]
    settled(scheduler, clock)


def test_prefills_wait_for_each_other(clock: Clock) -> None:
    scheduler = make(clock, prefill_tps=100)
    jobs = [Job(clock, 50, 1, is_stream=False) for _ in range(3)]
    for job in jobs:
        scheduler.submit(job)
    assert (scheduler.running, scheduler.waiting) == (1, 2)
    clock.run_until(10)
    assert [job.finished_at for job in jobs] == [0.5, 1.0, 1.5]
    assert scheduler.prefill_secs == 1.5
    settled(scheduler, clock)


def test_decoding_runs_side_by_side(clock: Clock) -> None:
    scheduler = make(clock, prefill_tps=100, decode_tps=10)
    stream, whole = Job(clock, 100, 4), Job(clock, 100, 4, is_stream=False)
    scheduler.submit(stream)
    scheduler.submit(whole)
    clock.run_until(10)
    assert stream.log == [(1, "start"), (1, 1), (1.1, 2), (1.2, 3), (1.3, 4), (1.3, "finish")]
    assert whole.finished_at == 2.3
    settled(scheduler, clock)


def test_rates_above_the_clock_give_several_tokens_a_step(clock: Clock) -> None:
    scheduler = make(clock, decode_tps=10000)
    job = Job(clock, 1, 101)
    scheduler.submit(job)
    clock.run_until(0.0095)
    assert 90 <= job.written <= 97
    clock.run_until(1)
    assert job.finished_at == pytest.approx(0.01)


def test_only_so_many_run_and_wait(clock: Clock) -> None:
    scheduler = make(clock, decode_tps=10, max_running=2, max_waiting=1)
    jobs = [Job(clock, 1, 11) for _ in range(4)]
    assert [scheduler.submit(job) for job in jobs] == [True, True, True, False]
    assert (scheduler.running, scheduler.waiting) == (2, 1)
    clock.run_until(10)
    assert [job.finished_at for job in jobs] == [1, 1, 2, None]
    settled(scheduler, clock)


def test_a_held_prefix_costs_nothing(clock: Clock) -> None:
    scheduler = make(clock, prefill_tps=16, cache_tokens=1600)
    first, second = Job(clock, 160, 1, is_stream=False), Job(clock, 160, 1, is_stream=False)
    scheduler.submit(first)
    clock.run_until(10)
    scheduler.submit(second)
    clock.run_until(20)
    assert (first.finished_at, second.finished_at) == (10, 11)  # only the last block is computed
    assert second.cached_tokens == 160 - BLOCK_BYTES // 4


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0, 1.15])
def test_who_leaves_makes_room(clock: Clock, at: float) -> None:
    """In the queue, during the prefill, after it, and while decoding."""
    scheduler = make(clock, prefill_tps=100, decode_tps=10)
    leaver, other = Job(clock, 100, 100), Job(clock, 100, 1, is_stream=False)
    scheduler.submit(leaver)
    scheduler.submit(other)
    clock.run_until(at)
    scheduler.remove(leaver)
    written = leaver.written
    clock.run_until(20)
    assert leaver.written == written
    assert leaver.finished_at is None
    assert other.finished_at == pytest.approx(min(at, 1.0) + 1)
    settled(scheduler, clock)


@pytest.mark.parametrize("decode_tps", [0, 10])
def test_a_blocked_stream_waits_and_wakes(clock: Clock, decode_tps: float) -> None:
    scheduler = make(clock, decode_tps=decode_tps)
    job = Job(clock, 1, 5)
    job.is_blocked = True
    scheduler.submit(job)
    clock.run_until(100)
    assert (job.written, clock.pending) == (0, 0)
    job.is_blocked = False
    scheduler.wake()
    clock.run_until(200)
    assert job.written == 5
    settled(scheduler, clock)


def test_close_forgets_everything(clock: Clock) -> None:
    scheduler = make(clock, prefill_tps=1, decode_tps=1, max_running=1)
    for _ in range(3):
        scheduler.submit(Job(clock, 10, 10))
    clock.run_until(11)
    scheduler.close()
    settled(scheduler, clock)
