"""Every routing key keeps its worker: a policy of its own, and sticky sessions over any other."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from smg.policies.ask import Ask, Ticket
from smg.policies.load import in_flight, lightest
from smg.workers.worker import Worker

MAX_KEYS = 1_000_000
CANDIDATES = 2
# A key that is in use is renewed so many times in its idle time.
RENEWED = 4

KEPT = ("manual", "occupied_hit")
MOVED = ("manual", "occupied_miss")
NEW = ("manual", "vacant")
NO_KEY = ("manual", "no_routing_id")

Chooser = Callable[[Sequence[Worker], Ask], Worker | None]
Told = Callable[[Worker, Ask], None]


class Delegate(Protocol):
    """The policy that places what has no key."""

    reads_body: bool

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None: ...


class SharedKeys(Protocol):
    """Where keys have their workers (URLs), known to several gateways."""

    def find(self, key: bytes) -> Awaitable[str | None] | None:
        """None at once when nobody can be asked."""

    def claim(self, key: bytes, worker: str, others: Callable[[str], None] | None = None) -> None:
        """Write it down in the background; with `others`, another gateway's choice is kept and told."""


class Pin:
    """Where a key's requests go: the worker in use first, and one it came from. `elsewhere`: the worker that
    another gateway has chosen."""

    __slots__ = ("counted_at", "elsewhere", "in_flight", "told_at", "used_at", "workers")

    def __init__(self, used_at: float) -> None:
        self.workers: list[Worker] = []
        self.used_at = used_at
        self.in_flight = 0
        self.counted_at: Worker | None = None
        self.elsewhere: str | None = None
        self.told_at = used_at


class Pins:
    """All keys, the least recently used first. `idle_s`: how long an unused key is remembered. `shared`:
    where other gateways have the same keys."""

    def __init__(
        self,
        idle_s: float,
        clock: Callable[[], float],
        limit: int = MAX_KEYS,
        shared: SharedKeys | None = None,
    ) -> None:
        self.shared = shared
        self._idle_s = idle_s
        self._clock = clock
        self._limit = limit
        self._pins: OrderedDict[bytes, Pin] = OrderedDict()
        self.groups: dict[Worker, int] = {}
        """Keys with requests in flight, by worker."""

    def __len__(self) -> int:
        return len(self._pins)

    async def recall(self, key: bytes, ask: Ask) -> None:
        """Before a key is placed that is not known here: ask whether another gateway knows it."""
        pin = self._pins.get(key)
        if self.shared is None or (pin is not None and not self._is_stale(pin, self._clock())):
            return
        asked = self.shared.find(_shared_key(key, ask))
        worker = await asked if asked is not None else None
        if worker is not None:
            pin = self._find(key, self._clock())
            if not pin.workers:
                pin.elsewhere = worker

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
        if pin.elsewhere is not None:
            worker = next((w for w in candidates if w.url == pin.elsewhere), worker)
            pin.elsewhere = None
        branch = KEPT
        if worker is None:
            branch = MOVED if pin.workers else NEW
            worker = choose(candidates, ask)
            if worker is None:
                return None
        elif kept is not None:
            kept(worker, ask)
        ask.branch = branch
        if self.shared is not None:
            self._tell(self.shared, key, pin, worker, ask, now)
        if not pin.workers or pin.workers[0] is not worker:
            pin.workers = [worker, *(w for w in pin.workers if w is not worker)][:CANDIDATES]
        ask.ticket = _Held(self, pin, worker, ask.ticket)
        return worker

    def _tell(self, shared: SharedKeys, key: bytes, pin: Pin, worker: Worker, ask: Ask, now: float) -> None:
        """Let the others know of a new or moved key, and now and then that it is still in use."""
        if ask.branch is NEW:

            def others(chosen: str) -> None:
                pin.elsewhere = chosen

            shared.claim(_shared_key(key, ask), worker.url, others)
        elif ask.branch is MOVED or now - pin.told_at > self._idle_s / RENEWED:
            shared.claim(_shared_key(key, ask), worker.url)
        else:
            return
        pin.told_at = now

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


def _shared_key(key: bytes, ask: Ask) -> bytes:
    """Workers are those of a model."""
    return b"%b\0%b" % ((ask.call.model or "").encode(), key)


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
            ask.branch = NO_KEY
            return self._any(candidates, ask)
        return self._pins.place(key, candidates, ask, self._assign)

    def share(self, keys: SharedKeys) -> None:
        """Other gateways have the same keys."""
        self._pins.shared = keys

    async def recall(self, ask: Ask) -> None:
        if ask.key is not None:
            await self._pins.recall(ask.key, ask)

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
    __slots__ = ("_kept", "_key_of", "_pins", "within")

    def __init__(self, policy: Delegate, pins: Pins, key_of: Callable[[Ask], bytes | None]) -> None:
        self.within = policy
        self._pins = pins
        self._key_of = key_of
        self._kept: Told | None = getattr(policy, "placed", None)

    def forget(self, worker: Worker) -> None:
        forget = getattr(self.within, "forget", None)
        if forget is not None:
            forget(worker)

    def choose(self, candidates: Sequence[Worker], ask: Ask) -> Worker | None:
        key = self._key_of(ask)
        if key is None:
            return self.within.choose(candidates, ask)
        return self._pins.place(key, candidates, ask, self.within.choose, self._kept)

    async def recall(self, ask: Ask) -> None:
        key = self._key_of(ask)
        if key is not None:
            await self._pins.recall(key, ask)
