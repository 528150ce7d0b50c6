"""How often requests may be tried again, all together, and after which pauses.

A fleet that fails makes every request a candidate for all its attempts: the load would be a multiple of
what broke it. So retries are paid for: a request earns a share of one, and a small number a second is free,
so that single failures are retried at any rate of requests.
"""

from __future__ import annotations

import math
import random

from smg.config.model import Retry

SHARE = 0.2
"""Of the first attempts, how many may be repeated."""
FREE_PER_S = 10.0
MEMORY_S = 10.0
"""What was earned fades with this time constant, and free retries are saved for so long: calm hours do not
pay for a storm."""
FADES_EVERY_S = 0.1
"""What is earned within so short a time has not faded."""
MOST_GROWTHS = 64
"""Pauses have reached any maximum by then, and a power of a few hundred is no number any more."""


class RetryBudget:
    """Times are seconds of a clock that does not go back. `denied`: retries that were not paid for."""

    __slots__ = ("_earned", "_earned_at", "_free", "_free_at", "denied", "spent")

    def __init__(self, now: float) -> None:
        self._earned = 0.0
        self._free = FREE_PER_S * MEMORY_S
        self._earned_at = self._free_at = now
        self.denied = 0
        self.spent = 0

    def earn(self, now: float) -> None:
        """A request's first attempt."""
        if now - self._earned_at < FADES_EVERY_S:
            self._earned += SHARE
            return
        self._earned = self._earned * math.exp(min(self._earned_at - now, 0.0) / MEMORY_S) + SHARE
        self._earned_at = now

    def try_spend(self, now: float) -> bool:
        """Take one retry, if there is one."""
        self._free = min(self._free + (now - self._free_at) * FREE_PER_S, FREE_PER_S * MEMORY_S)
        self._free_at = now
        earned = self._earned * math.exp(min(self._earned_at - now, 0.0) / MEMORY_S)
        if earned >= 1:
            self._earned, self._earned_at = earned - 1, now
        elif self._free >= 1:
            self._free -= 1
        else:
            self.denied += 1
            return False
        self.spent += 1
        return True


def attempts_of(retry: Retry) -> int:
    """How often a request may be tried in all."""
    return 1 if retry.disable_retries else retry.retry_max_retries


class Pauses:
    """The pause after each attempt: growing, bounded, with jitter."""

    __slots__ = ("_retry",)

    def __init__(self, retry: Retry) -> None:
        self._retry = retry

    def after_s(self, number: int) -> float:
        """How long to wait after attempt `number`, from 1."""
        retry = self._retry
        growth = retry.retry_backoff_multiplier ** min(number - 1, MOST_GROWTHS)
        delay_ms = retry.retry_initial_backoff_ms * growth
        jitter = 1 + random.uniform(-1, 1) * retry.retry_jitter_factor  # noqa: S311
        return min(delay_ms, retry.retry_max_backoff_ms) * jitter / 1000
