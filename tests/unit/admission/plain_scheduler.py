"""The priority scheduler told over again, slow and obvious: lists that are searched at every step."""

from __future__ import annotations

from smg.admission.reservations import reservations
from smg.config.side_files import ClassOptions


class Plain:
    """Requests are numbers. `running` and `waiting` hold (number, rank[, since]) in the order of coming."""

    def __init__(self, classes: list[ClassOptions], capacity: int) -> None:
        self.classes = classes
        self.capacity = capacity
        self.running: list[tuple[int, int]] = []
        self.waiting: list[tuple[int, int, float]] = []
        self.started: set[int] = set()
        self.preempted: list[int] = []
        self.refused: list[int] = []
        self.late: list[int] = []

    def comes(self, number: int, rank: int, now: float) -> None:
        if self.has_room(rank):
            self.running.append((number, rank))
            return
        line = [one for one in self.waiting if one[1] == rank]
        victim = self.victim(rank) if self.classes[rank].can_preempt else None
        if victim is not None:
            self.running.remove(victim)
            self.preempted.append(victim[0])
            if not line:
                self.running.append((number, rank))
                return
            self.waiting.remove(line[0])
            self.running.append(line[0][:2])
            line = line[1:]
        if len(line) >= self.classes[rank].queue_size:
            self.refused.append(number)
        else:
            self.waiting.append((number, rank, now))

    def ends(self, number: int, now: float) -> None:
        self.running = [one for one in self.running if one[0] != number]
        self.hand_out(now)

    def leaves(self, number: int) -> None:
        self.waiting = [one for one in self.waiting if one[0] != number]

    def tick(self, now: float) -> None:
        for one in list(self.waiting):
            if now - one[2] >= self.classes[one[1]].queue_timeout_secs:
                self.waiting.remove(one)
                self.late.append(one[0])
        self.hand_out(now)

    def used(self, rank: int) -> int:
        return sum(1 for one in self.running if one[1] == rank)

    def has_room(self, rank: int) -> bool:
        kept = reservations(self.classes, self.capacity)
        unused = sum(max(0, kept[higher] - self.used(higher)) for higher in range(rank))
        return self.capacity - len(self.running) - unused > 0

    def victim(self, by: int) -> tuple[int, int] | None:
        for rank in (3, 2, 1, 0):
            lower = [one for one in self.running if one[1] == rank and one[0] not in self.started]
            if rank > by and lower:
                return lower[-1]
        return None

    def hand_out(self, now: float) -> None:
        while len(self.running) < self.capacity:
            chosen = self.next(now)
            if chosen is None:
                return
            self.waiting.remove(chosen)
            self.running.append(chosen[:2])

    def next(self, now: float) -> tuple[int, int, float] | None:
        heads = {}
        for one in reversed(self.waiting):
            heads[one[1]] = one
        for rank in (3, 2, 1, 0):
            if rank in heads and now - heads[rank][2] >= self.classes[rank].starvation_threshold_secs:
                return heads[rank]
        for rank in (0, 1, 2, 3):
            if rank in heads and self.has_room(rank):
                return heads[rank]
        return None
