"""What the policies' choices are counted by: the reason of each, and how much of a prompt was held."""

from __future__ import annotations

from bisect import bisect_left

from smg.policies.ask import Ask
from smg.workers.worker import Worker

RATIO_BOUNDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Choices:
    """`branches`: (policy, reason) → choices. `ratios`: prompts by the share the best worker holds, by
    `RATIO_BOUNDS`, the sum of the shares last. `held`: worker → bytes of the prompts it got, and of what it
    held of them."""

    def __init__(self) -> None:
        self.branches: dict[tuple[str, str], int] = {}
        self.ratios: list[float] = [0] * (len(RATIO_BOUNDS) + 2)
        self.held: dict[Worker, list[int]] = {}

    def note(self, ask: Ask, worker: Worker | None) -> None:
        branch = ask.branch
        if branch is None:
            return
        self.branches[branch] = self.branches.get(branch, 0) + 1
        if ask.prompt_bytes and worker is not None:
            ratio = min(ask.matched_bytes / ask.prompt_bytes, 1.0)
            self.ratios[bisect_left(RATIO_BOUNDS, ratio)] += 1
            self.ratios[-1] += ratio
            row = self.held.get(worker)
            if row is None:
                row = self.held[worker] = [0, 0]
            row[0] += ask.prompt_bytes
            row[1] += ask.held_bytes

    def forget(self, worker: Worker) -> None:
        self.held.pop(worker, None)
