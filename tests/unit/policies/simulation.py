"""A fleet of engines in time that is only counted: the real policies, prompts that share prefixes.

An engine prefills one prompt after the other, only the blocks that its LRU cache does not hold, and then
decodes beside the others. What a policy is told, and when, is what the gateway would tell it.
"""

from __future__ import annotations

import heapq
import itertools
import random
import statistics
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from smg.policies.ask import Ask
from smg.policies.choose import Policy
from tests.clock import Clock
from tests.unit.policies.fleet import ask, fleet

BLOCK_TOKENS = 512
BLOCK_CHARS = 128
FIXED_S = 0.02
DECODE_TOKENS_PER_S = 40

MakePolicy = Callable[[random.Random, Callable[[], float]], Policy]


@dataclass(frozen=True)
class Request:
    """`blocks` are numbers; equal ones at the beginning are an equal prefix."""

    at: float
    blocks: tuple[int, ...]
    output_tokens: int


@dataclass
class Engine:
    """`speed`: prompt tokens a second."""

    speed: float
    room: int
    cache: OrderedDict[int, None] = field(default_factory=OrderedDict)
    queue: deque[int] = field(default_factory=deque)
    is_busy: bool = False
    asked: int = 0
    found: int = 0

    def prefill(self, blocks: Sequence[int]) -> float:
        """Seconds it takes; the cache holds the prompt afterwards."""
        held = sum(1 for _ in itertools.takewhile(self.cache.__contains__, blocks))
        for block in blocks:
            self.cache[block] = None
            self.cache.move_to_end(block)
        while len(self.cache) > self.room:
            self.cache.popitem(last=False)
        self.asked += len(blocks)
        self.found += held
        return (len(blocks) - held) * BLOCK_TOKENS / self.speed + FIXED_S


@dataclass(frozen=True)
class Result:
    """`hits`: share of the prompts' blocks that were found; times to first token in seconds."""

    hits: float
    mean_s: float
    ttft_s: tuple[float, ...]


def conversations(seed: int, count: int, rate: float, turns: int, system_prompts: int) -> list[Request]:
    """Conversations that begin at `rate` a second with one of a few system prompts; each turn carries all
    before it."""
    rng = random.Random(seed)
    numbers = itertools.count()
    systems = [tuple(next(numbers) for _ in range(rng.randint(2, 12))) for _ in range(system_prompts)]
    requests, start = [], 0.0
    for _ in range(count):
        start += rng.expovariate(rate)
        at, blocks = start, rng.choice(systems)
        for _ in range(rng.randint(1, turns)):
            blocks += tuple(next(numbers) for _ in range(rng.randint(1, 12)))
            output_tokens = rng.randint(20, 400)
            requests.append(Request(at, blocks, output_tokens))
            at += output_tokens / DECODE_TOKENS_PER_S + rng.expovariate(1 / 15)
    return sorted(requests, key=lambda request: request.at)


class Simulation:
    """One run of all requests through one policy."""

    def __init__(
        self, make: MakePolicy, requests: Sequence[Request], speeds: Sequence[float], room: int
    ) -> None:
        self._clock = Clock()
        self._policy = make(random.Random(1), self._clock)
        self._requests = requests
        self._workers = fleet(len(speeds))
        self._engines = [Engine(speed, room) for speed in speeds]
        self._events: list[tuple[float, int, Callable[[int, int], None], int, int]] = []
        self._order = itertools.count()
        self._asks: dict[int, Ask] = {}
        self._ttft_s: list[float] = []

    def run(self) -> Result:
        for number, request in enumerate(self._requests):
            self._at(request.at, self._arrive, number, 0)
        while self._events:
            self._clock.now, _, happen, number, place = heapq.heappop(self._events)
            happen(number, place)
        found, asked = (sum(getattr(e, name) for e in self._engines) for name in ("found", "asked"))
        return Result(found / asked, statistics.mean(self._ttft_s), tuple(self._ttft_s))

    def _at(self, when: float, happen: Callable[[int, int], None], number: int, place: int) -> None:
        heapq.heappush(self._events, (when, next(self._order), happen, number, place))

    def _arrive(self, number: int, _: int) -> None:
        blocks = self._requests[number].blocks
        one = self._asks[number] = ask("".join(f"block-{b} ".ljust(BLOCK_CHARS, ".") for b in blocks))
        worker = self._policy.choose(self._workers, one)
        assert worker is not None
        worker.load += 1
        place = self._workers.index(worker)
        self._engines[place].queue.append(number)
        self._next_prefill(place)

    def _next_prefill(self, place: int) -> None:
        engine = self._engines[place]
        if not engine.is_busy and engine.queue:
            engine.is_busy = True
            number = engine.queue.popleft()
            spent = engine.prefill(self._requests[number].blocks)
            self._at(self._clock.now + spent, self._first_token, number, place)

    def _first_token(self, number: int, place: int) -> None:
        now, request = self._clock.now, self._requests[number]
        self._ttft_s.append(now - request.at)
        ticket = self._asks[number].ticket
        if ticket is not None:
            ticket.first_event(now)
        self._at(now + request.output_tokens / DECODE_TOKENS_PER_S, self._end, number, place)
        self._engines[place].is_busy = False
        self._next_prefill(place)

    def _end(self, number: int, place: int) -> None:
        self._workers[place].load -= 1
        ticket = self._asks.pop(number).ticket
        if ticket is not None:
            ticket.end(self._clock.now)
