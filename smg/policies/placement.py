"""`--cache-index hash`: exact token heads at fixed lengths instead of trees, each remembered for a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from smg._fast.prefix import token_hashes
from smg.policies.prefix_index import Prompt
from smg.workers.worker import Worker

MAX_HEADS = 1_000_000


class PlacementIndex:
    """`boundaries`: lengths in tokens; the deepest that the prompt reaches and that is known decides.
    Prompts without tokens match nothing."""

    def __init__(self, boundaries: Sequence[int], ttl_s: float, clock: Callable[[], float]) -> None:
        self._boundaries = tuple(sorted(boundaries))
        self._ttl_s = ttl_s
        self._clock = clock
        self._heads: OrderedDict[tuple[int, int], dict[Worker, float]] = OrderedDict()

    def best(self, prompt: Prompt) -> tuple[int, list[Worker]]:
        now = self._clock()
        for length, head in reversed(self._hashes(prompt)):
            known = self._heads.get((length, head))
            if known:
                fresh = [worker for worker, until in known.items() if until > now]
                if fresh:
                    # The whole of what can be compared is held: affinity counts.
                    return prompt.size, fresh
        return 0, []

    def insert(self, prompt: Prompt, worker: Worker) -> None:
        now = self._clock()
        until = now + self._ttl_s
        for place in self._hashes(prompt):
            self._heads.setdefault(place, {})[worker] = until
            self._heads.move_to_end(place)
        while self._heads and (len(self._heads) > MAX_HEADS or self._is_stale(now)):
            self._heads.popitem(last=False)

    def forget(self, worker: Worker) -> None:
        for place in [place for place, known in self._heads.items() if worker in known]:
            del self._heads[place][worker]
            if not self._heads[place]:
                del self._heads[place]

    def _is_stale(self, now: float) -> bool:
        return all(until <= now for until in next(iter(self._heads.values())).values())

    def _hashes(self, prompt: Prompt) -> list[tuple[int, int]]:
        return token_hashes(prompt.tokens, self._boundaries) if prompt.tokens is not None else []
