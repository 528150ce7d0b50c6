"""When the simulated engine works on what: one prefill at a time, then decoding side by side.

Jobs are admitted in order. A prefill costs the prompt's tokens that the prefix cache does not hold;
decoding then gives every running job the same number of tokens per second, in common steps, as
engines with continuous batching do. A rate of zero takes no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from smg.sim.prefix_cache import PrefixCache, count_tokens

# Shorter steps than the loop's clock can tell give several tokens each.
MIN_STEP_SECS = 0.001
# Timers may fire a little early; this much of a token is then given in advance.
EARLY_TOKENS = 0.1


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """The part of an event loop that is needed here."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer: ...
    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer: ...


class Job(Protocol):
    """One request being generated."""

    prompts: list[bytes]
    steps: int  # tokens of the longest choice
    is_stream: bool
    cached_tokens: int

    @property
    def is_blocked(self) -> bool: ...  # the client reads too slowly
    @property
    def written(self) -> int: ...  # steps already written
    @property
    def outputs(self) -> list[bytes]: ...  # prompt and text of each choice, for the cache
    def start(self) -> None: ...
    def write(self, upto: int) -> None: ...
    def finish(self) -> None: ...


class _Running:
    __slots__ = ("job", "started_at", "timer", "tokens")

    def __init__(self, job: Job, tokens: int) -> None:
        self.job = job
        self.tokens = tokens
        self.started_at = 0.0
        self.timer: Timer | None = None


class Scheduler:
    """Carries jobs from `submit` to `finish`; a job that is removed gets no further call."""

    def __init__(
        self,
        clock: Clock,
        cache: PrefixCache,
        *,
        prefill_tps: float,
        decode_tps: float,
        max_running: int,
        max_waiting: int,
        burst: int = 1,
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._prefill_tps = prefill_tps
        self._decode_tps = decode_tps
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._burst = burst
        self._waiting: dict[int, Job] = {}  # by id(job), in order of arrival
        self._running: dict[int, _Running] = {}
        self._streams: dict[int, _Running] = {}
        self._prefilling: _Running | None = None
        self._ticker: Timer | None = None
        self._is_admitting = False
        self.prefill_secs = 0.0
        self.used_tokens = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, job: Job) -> bool:
        """Take a job, or return False when the queue is full."""
        if len(self._waiting) >= self._max_waiting:
            return False
        self._waiting[id(job)] = job
        self._admit()
        return True

    def remove(self, job: Job) -> None:
        """Forget a job whose client left."""
        if self._waiting.pop(id(job), None) is not None:
            return
        running = self._running.get(id(job))
        if running is not None:
            self._release(running)
            self._admit()

    def wake(self) -> None:
        """A blocked job can write again."""
        if self._streams and self._ticker is None:
            self._ticker = self._clock.call_soon(self._tick)

    def close(self) -> None:
        """Forget everything and stop all timers."""
        self._waiting.clear()
        for running in list(self._running.values()):
            self._release(running)

    def _admit(self) -> None:
        if self._is_admitting:  # a job that ends at once comes back here
            return
        self._is_admitting = True
        try:
            while self._waiting and self._prefilling is None and len(self._running) < self._max_running:
                self._prefill(self._waiting.pop(next(iter(self._waiting))))
        finally:
            self._is_admitting = False

    def _prefill(self, job: Job) -> None:
        prompt_tokens = sum(map(count_tokens, job.prompts))
        running = _Running(job, prompt_tokens + job.steps)
        self._running[id(job)] = running
        self.used_tokens += running.tokens
        job.cached_tokens = sum(map(self._cache.match, job.prompts))
        if self._prefill_tps <= 0:
            self._decode(running)
            return
        secs = (prompt_tokens - job.cached_tokens) / self._prefill_tps
        self.prefill_secs += secs
        self._prefilling = running
        running.timer = self._clock.call_later(secs, self._prefilled, running)

    def _prefilled(self, running: _Running) -> None:
        self._prefilling = None
        self._decode(running)
        self._admit()

    def _decode(self, running: _Running) -> None:
        job = running.job
        for prompt in job.prompts:
            self._cache.insert(prompt)
        running.started_at = self._clock.time()
        running.timer = None
        if not job.is_stream:
            if self._decode_tps <= 0:
                self._finish(running)
            else:
                secs = max(0, job.steps - 1) / self._decode_tps
                running.timer = self._clock.call_later(secs, self._finish, running)
            return
        job.start()
        if id(job) not in self._running:  # broken off by its first events
            return
        self._streams[id(job)] = running
        if not self._advance(running) and self._ticker is None:
            self._schedule_tick()

    def _advance(self, running: _Running) -> bool:
        """Let a stream write what is due; True when it has ended."""
        job = running.job
        if self._decode_tps <= 0:
            due = job.written + self._burst
        else:  # the first token comes with the prefill
            elapsed = self._clock.time() - running.started_at
            due = 1 + math.floor(elapsed * self._decode_tps + EARLY_TOKENS)
        job.write(min(due, job.steps))
        if job.written >= job.steps and id(job) in self._streams:
            self._finish(running)
        return id(job) not in self._streams

    def _tick(self) -> None:
        self._ticker = None
        for key, running in list(self._streams.items()):
            if key in self._streams and not running.job.is_blocked:
                self._advance(running)
        if self._ticker is None:
            self._schedule_tick()

    def _schedule_tick(self) -> None:
        if all(running.job.is_blocked for running in self._streams.values()):
            return  # also when there is none; `wake` starts again
        if self._decode_tps <= 0:
            self._ticker = self._clock.call_soon(self._tick)
        else:
            self._ticker = self._clock.call_later(max(MIN_STEP_SECS, 1 / self._decode_tps), self._tick)

    def _finish(self, running: _Running) -> None:
        self._release(running)
        if self._cache.capacity_blocks:
            for text in running.job.outputs:
                self._cache.insert(text)
        running.job.finish()
        self._admit()

    def _release(self, running: _Running) -> None:
        key = id(running.job)
        del self._running[key]
        self._streams.pop(key, None)
        self.used_tokens -= running.tokens
        if running.timer is not None:
            running.timer.cancel()
        if self._prefilling is running:
            self._prefilling = None
        if not self._streams and self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
