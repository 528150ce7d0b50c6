"""The priority scheduler: as many requests at work as the workers can run, the higher class first.

Four classes, rank 0 the highest. A class keeps slots free from those below it; a request of a class that
may, displaces a lower one that has sent nothing yet; who has waited too long comes before all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from smg import errors
from smg.admission.identity import Tenant
from smg.admission.line import Line, Waiter
from smg.admission.permits import Asker
from smg.admission.reservations import reservations
from smg.config.admission import CLASSES
from smg.config.side_files import SchedulerFile

PRIORITY_HEADER = b"x-smg-priority"
OTHER_TENANTS = "other"
_RANKS = {name.encode(): rank for rank, name in enumerate(CLASSES)}
_DEFAULT = CLASSES.index("default")


class Slot:
    """One request at work; `is_lost` when another has displaced it."""

    __slots__ = ("_scheduler", "asker", "is_lost", "rank")

    def __init__(self, scheduler: Scheduler, asker: Asker, rank: int) -> None:
        self._scheduler = scheduler
        self.asker = asker
        self.rank = rank
        self.is_lost = False

    def release(self) -> None:
        if not self.is_lost:
            self._scheduler.free(self)


class Scheduler:
    """`capacity`: slots in all; see `set_capacity`. `max_class`: of tenants whose key the file does not name.
    `labelled`: how many more tenants are told apart in `clamps`.

    The counts besides `admits`: `clamps` by tenant, requested and effective class,
    `preemptions` by the displaced class and the one it made room for.
    """

    def __init__(
        self,
        file: SchedulerFile,
        max_class: str,
        labelled: int,
        capacity: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._options = [getattr(file.classes, name) for name in CLASSES]
        self._ceilings = {
            key: CLASSES.index(policy.max_class) for key, policy in file.tenant_policies.items()
        }
        self._ceiling = CLASSES.index(max_class)
        self._labelled = labelled
        self._labels: set[str] = set()
        self.lines = [
            Line(
                one.queue_size,
                one.queue_timeout_secs,
                loop,
                patience_s=one.starvation_threshold_secs,
                on_impatient=self._hand_out,
            )
            for one in self._options
        ]
        self.used = [0] * len(CLASSES)
        self.in_flight = 0
        self._waiting = 0
        self.capacity = capacity
        self.reserved = reservations(self._options, capacity)
        # By class, the newest last; those found to have sent something are taken out.
        self._silent: list[dict[Slot, None]] = [{} for _ in CLASSES]
        self._admitted = [0] * len(CLASSES)
        self._others: dict[tuple[str, str], int] = {}
        self.clamps: dict[tuple[str, str, str], int] = {}
        self.preemptions: dict[tuple[str, str], int] = {}

    # ---- what a request asks for

    def take(self, asker: Asker) -> Slot | None:
        rank = self._rank_of(asker)
        if self._has_room(rank):
            return self._enter(asker, rank)
        # Those of the class that wait already come first.
        if self._options[rank].can_preempt and self._displace(rank) and not self._serve(rank):
            return self._enter(asker, rank)
        return None

    async def wait(self, asker: Asker) -> Slot:
        rank = self._rank_of(asker, counts=False)
        line, name = self.lines[rank], CLASSES[rank]
        if line.is_full:
            self._count(rank, "rejected_queue_full")
            raise errors.scheduler_queue_full(name)
        waiter = line.join(asker)
        self._waiting += 1
        try:
            came = await waiter.future
        except BaseException:
            self._forget(waiter, rank)
            raise
        finally:
            self._waiting -= 1
        if not came:
            self._count(rank, "rejected_queue_timeout")
            raise errors.scheduler_queue_timeout(name)
        assert isinstance(waiter.permit, Slot)
        return waiter.permit

    def free(self, slot: Slot) -> None:
        """A request has ended."""
        slot.is_lost = True
        self._silent[slot.rank].pop(slot, None)
        self._leave(slot.rank)
        if self._waiting:
            self._hand_out()

    # ---- what the workers can do

    def set_capacity(self, capacity: int) -> None:
        """Workers came, went or changed. What is at work above a lower capacity ends in its own time."""
        if capacity != self.capacity:
            self.capacity = capacity
            self.reserved = reservations(self._options, capacity)
            self._hand_out()

    # ---- the rules

    def _rank_of(self, asker: Asker, *, counts: bool = True) -> int:
        """The class a request may have: the one it asks for, no higher than its tenant's."""
        value = asker.head.get(PRIORITY_HEADER)
        asked = _DEFAULT
        if value:
            asked = _RANKS.get(value.strip().lower(), _DEFAULT)
        ceiling = self._ceilings.get(asker.tenant.key, self._ceiling)
        if asked >= ceiling:
            return asked
        if counts:
            label = self._label_of(asker.tenant)
            clamp = (label, CLASSES[asked], CLASSES[ceiling])
            self.clamps[clamp] = self.clamps.get(clamp, 0) + 1
        return ceiling

    def _has_room(self, rank: int) -> bool:
        """Is there a slot that no higher class keeps free for itself?"""
        spare = self.capacity - self.in_flight
        if spare <= 0:
            return False
        for higher in range(rank):
            unused = self.reserved[higher] - self.used[higher]
            if unused > 0:
                spare -= unused
        return spare > 0

    def _displace(self, by: int) -> bool:
        """End a lower request that has sent nothing, the lowest class first and the newest of it; its slot
        is then free."""
        for rank in range(len(CLASSES) - 1, by, -1):
            silent = self._silent[rank]
            while silent:
                slot, _ = silent.popitem()
                if slot.asker.started:
                    continue
                slot.is_lost = True
                self._leave(rank)
                self._count(rank, "preempted")
                names = (CLASSES[rank], CLASSES[by])
                self.preemptions[names] = self.preemptions.get(names, 0) + 1
                slot.asker.interrupt()
                return True
        return False

    def _hand_out(self) -> None:
        """Give free slots to those who wait: who has lost patience, else the highest class."""
        while self.in_flight < self.capacity:
            rank = self._next()
            if rank is None:
                return
            self._serve(rank)

    def _next(self) -> int | None:
        ranks = range(len(CLASSES))
        for rank in reversed(ranks):
            if self.lines[rank].is_impatient:
                return rank
        for rank in ranks:
            if self.lines[rank] and self._has_room(rank):
                return rank
        return None

    def _serve(self, rank: int) -> bool:
        """Give the first in line a free slot; is there one who takes it?"""
        waiter = self.lines[rank].serve(None)
        if waiter is None:
            return False
        waiter.permit = self._enter(waiter.what, rank)  # type: ignore[arg-type]
        return True

    def _enter(self, asker: Asker, rank: int) -> Slot:
        slot = Slot(self, asker, rank)
        self.used[rank] += 1
        self.in_flight += 1
        self._silent[rank][slot] = None
        self._admitted[rank] += 1
        return slot

    def _leave(self, rank: int) -> None:
        self.used[rank] -= 1
        self.in_flight -= 1

    def _forget(self, waiter: Waiter, rank: int) -> None:
        """A client left while it waited, or in the turn in which its slot came."""
        self.lines[rank].leave(waiter)
        self._count(rank, "client_cancelled")
        if isinstance(waiter.permit, Slot):
            waiter.permit.release()

    # ---- what is told

    @property
    def admits(self) -> dict[tuple[str, str], int]:
        """Requests by class and outcome."""
        admitted = {
            (name, "admitted"): count for name, count in zip(CLASSES, self._admitted, strict=True) if count
        }
        return admitted | self._others

    @property
    def allowed(self) -> int:
        return sum(self._admitted)

    @property
    def rejected(self) -> int:
        return sum(count for (_, outcome), count in self._others.items() if outcome.startswith("rejected"))

    @property
    def pressures(self) -> Iterable[float]:
        """By class, how near to its limits it is: the fuller of its queue and of the slots it can have."""
        for rank, line in enumerate(self.lines):
            slots = self.capacity - sum(self.reserved[:rank])
            of_slots = self.used[rank] / slots if slots > 0 else float(self.used[rank] > 0)
            of_queue = len(line) / line.size if line.size else 0.0
            yield min(1.0, max(of_slots, of_queue))

    def snapshot(self) -> Mapping[str, object]:
        return {
            "in_flight": self.in_flight,
            "limit": self.capacity,
            "waiting": sum(map(len, self.lines)),
            "classes": {
                name: {
                    "in_flight": self.used[rank],
                    "reserved": self.reserved[rank],
                    "waiting": len(self.lines[rank]),
                    "queue_size": self.lines[rank].size,
                }
                for rank, name in enumerate(CLASSES)
            },
        }

    def close(self) -> None:
        for line in self.lines:
            line.close()

    def _count(self, rank: int, outcome: str) -> None:
        key = (CLASSES[rank], outcome)
        self._others[key] = self._others.get(key, 0) + 1

    def _label_of(self, tenant: Tenant) -> str:
        """A tenant's label: as many have one as were asked for, and those that the file names."""
        label = tenant.label
        if tenant.key in self._ceilings or label in self._labels:
            return label
        if len(self._labels) >= self._labelled:
            return OTHER_TENANTS
        self._labels.add(label)
        return label
