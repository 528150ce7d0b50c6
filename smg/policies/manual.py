"""Every routing key keeps its worker: a policy of its own, and sticky sessions over any other."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from smg.policies.ask import Ask, Ticket
from smg.policies.load import in_flight, lightest
from smg.workers.worker import Worker

MAX_KEYS = 1_000_000
CANDIDATES = 2

Chooser = Callable[[Sequence[Worker], Ask], Worker | None]
Told = Callable[[Worker, Ask], None]


class Delegate(Protocol):
    """The policy that places what has no key."""

    reads_body: bool

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None: ...


class Pin:
    """Where a key's requests go: the worker in use first, and one it came from."""

    __slots__ = ("counted_at", "in_flight", "used_at", "workers")

    def __init__(self, used_at: float) -> None:
        self.workers: list[Worker] = []
        self.used_at = used_at
        self.in_flight = 0
        self.counted_at: Worker | None = None


class Pins:
    """All keys, the least recently used first. `idle_s`: how long an unused key is remembered."""

    def __init__(self, idle_s: float, clock: Callable[[], float], limit: int = MAX_KEYS) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._limit = limit
        self._pins: OrderedDict[bytes, Pin] = OrderedDict()
        self.groups: dict[Worker, int] = {}
        """Keys with requests in flight, by worker."""

    def __len__(self) -> int:
        return len(self._pins)

    def place(
        self,
        key: bytes,
        candidates: Sequence[Worker],
        ask: Ask,
        choose: Chooser,
        kept: Told | None = None,
    ) -> Worker | None:
        """The key's worker if it is a candidate, else the one it came from, else what `choose` says.

        `kept` is told where `choose` was not asked.
        """
        now = self._clock()
        pin = self._find(key, now)
        worker = next((w for w in pin.workers if w in candidates), None)
        if worker is None:
            worker = choose(candidates, ask)
            if worker is None:
                return None
        elif kept is not None:
            kept(worker, ask)
        if not pin.workers or pin.workers[0] is not worker:
            pin.workers = [worker, *(w for w in pin.workers if w is not worker)][:CANDIDATES]
        ask.ticket = _Held(self, pin, worker, ask.ticket)
        return worker

    def _find(self, key: bytes, now: float) -> Pin:
        pins = self._pins
        pin = pins.get(key)
        if pin is None or self._is_stale(pin, now):
            pin = pins[key] = Pin(now)
        pins.move_to_end(key)
        pin.used_at = now
        while len(pins) > self._limit or (len(pins) > 1 and self._is_stale(next(iter(pins.values())), now)):
            pins.popitem(last=False)
        return pin

    def _is_stale(self, pin: Pin, now: float) -> bool:
        return pin.in_flight == 0 and now - pin.used_at > self._idle_s


class _Held:
    """A request of a key in flight; passes on to the ticket of the policy beneath."""

    __slots__ = ("_below", "_pin", "_pins")

    def __init__(self, pins: Pins, pin: Pin, worker: Worker, below: Ticket | None) -> None:
        self._pins, self._pin, self._below = pins, pin, below
        if pin.in_flight == 0:
            # A key counts where it was when it came to life, even if it moves meanwhile.
            pin.counted_at = worker
            pins.groups[worker] = pins.groups.get(worker, 0) + 1
        pin.in_flight += 1

    def first_event(self, now: float) -> None:
        if self._below is not None:
            self._below.first_event(now)

    def end(self, now: float) -> None:
        self._pin.in_flight -= 1
        worker = self._pin.counted_at
        if self._pin.in_flight == 0 and worker is not None:
            left = self._pins.groups.get(worker, 1) - 1
            if left > 0:
                self._pins.groups[worker] = left
            else:
                self._pins.groups.pop(worker, None)
        if self._below is not None:
            self._below.end(now)


class Manual:
    """`mode`: where a new key goes: `random`, `min_load`, `min_group` (fewest keys at work) or `delegate`
    (as min_load, there being no policy beneath). Without a key: random."""

    reads_body = False

    def __init__(self, mode: str, pins: Pins, rng: random.Random) -> None:
        self._pins = pins
        self._random = rng
        self._assign: Chooser = {
            "random": self._any,
            "min_load": self._least_loaded,
            "min_group": self._fewest_keys,
            "delegate": self._least_loaded,
        }[mode]

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        key = ask.key
        if key is None:
            return self._any(candidates, ask)
        return self._pins.place(key, candidates, ask, self._assign)

    def _any(self, candidates: Sequence[Worker], ask: Ask) -> Worker:
        return self._random.choice(candidates)

    def _least_loaded(self, candidates: Sequence[Worker], ask: Ask) -> Worker:
        return lightest(candidates, in_flight, self._random)

    def _fewest_keys(self, candidates: Sequence[Worker], ask: Ask) -> Worker:
        groups = self._pins.groups
        return lightest(candidates, lambda w: groups.get(w, 0), self._random)


class Sticky:
    """Sticky sessions: a key stays where the policy beneath has placed it first.

    A policy that keeps account of prompts has `placed(worker, ask)`: it hears of those it was not asked for.
    """

    reads_body = True
    __slots__ = ("_kept", "_key_of", "_pins", "_policy")

    def __init__(self, policy: Delegate, pins: Pins, key_of: Callable[[Ask], bytes | None]) -> None:
        self._policy = policy
        self._pins = pins
        self._key_of = key_of
        self._kept: Told | None = getattr(policy, "placed", None)

    def forget(self, worker: Worker) -> None:
        forget = getattr(self._policy, "forget", None)
        if forget is not None:
            forget(worker)

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        key = self._key_of(ask)
        if key is None:
            return self._policy.choose(candidates, ask)
        return self._pins.place(key, candidates, ask, self._policy.choose, self._kept)
