"""From a call to a pair of workers: one prefills the prompt, the other decodes from its KV cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from smg import errors
from smg.api import hints
from smg.api.call import Call
from smg.api.surfaces import PAIRED, Surface
from smg.config.model import Retry as RetryOptions
from smg.gateway.route import Lease, Router
from smg.gateway.turns import Turns
from smg.policies.choose import Policy
from smg.policies.manual import Pins
from smg.workers.overload import Overload
from smg.workers.registry import Change, ModelEntry, Registry
from smg.workers.worker import REGULAR, Worker

Half = Callable[[ModelEntry], tuple[Worker, ...]]

OTHER = "other"


class PairLease(Lease):
    """The lease of the decode worker, with that of the prefill worker, which may end earlier."""

    __slots__ = ("_blamed", "_on_decoded", "_on_prefilled", "_prefills", "prefill")

    def __init__(
        self, decode: Lease, prefill: Lease, on_prefilled: Callable[[], None], on_decoded: Callable[[], None]
    ) -> None:
        super().__init__(decode.worker, decode.again, decode.ticket)
        self.prefill = prefill
        self._on_prefilled = on_prefilled
        self._on_decoded = on_decoded
        self._prefills = False
        self._blamed: Lease | None = None

    def __enter__(self) -> PairLease:
        self.prefill.__enter__()
        self._prefills = True
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_prefill()
        super().__exit__(kind, error, trace)
        self._on_decoded()

    def end_prefill(self) -> None:
        """The prefill worker has nothing more to do for the request."""
        if self._prefills:
            self._prefills = False
            self.prefill.__exit__(None, None, None)
            self._on_prefilled()

    def blame_prefill(self) -> None:
        """The attempt failed at the prefill worker."""
        self._blamed = self.prefill

    def add_to(self, tried: tuple[Worker, ...]) -> tuple[Worker, ...]:
        worker = self.worker if self._blamed is None else self._blamed.worker
        return tried if worker in tried else (*tried, worker)


class Legs:
    """How each half of a pair is chosen, and when a request has to wait for one.

    `prefill_limit`: requests in flight that a prefill worker may have, None for any number; those above wait
    in `prefill_turns`. `decode_turns`: those that wait for room in a decode worker's running window.
    `prefilled` counts the requests of each prefill worker, by model, `selected` those of all that ever were.
    """

    __slots__ = (
        "decode", "decode_turns", "prefill", "prefill_limit", "prefill_turns", "prefilled", "selected",
    )  # fmt: skip

    def __init__(
        self,
        prefill: Router,
        decode: Router,
        prefill_limit: int | None,
        prefill_turns: Turns,
        decode_turns: Turns,
    ) -> None:
        self.prefill = prefill
        self.decode = decode
        self.prefill_limit = prefill_limit
        self.prefill_turns = prefill_turns
        self.decode_turns = decode_turns
        self.prefilled: dict[Worker, dict[str, int]] = {}
        self.selected: dict[str, int] = {}

    def count(self, worker: Worker, model: str | None) -> None:
        counts = self.prefilled.setdefault(worker, {})
        model = model if model in worker.models else OTHER
        counts[model] = counts.get(model, 0) + 1
        self.selected[model] = self.selected.get(model, 0) + 1

    def has_room_to_prefill(self, worker: Worker) -> bool:
        return self.prefill_limit is None or worker.load < self.prefill_limit


class PairRouter(Router):
    """Serves the models that have halves of pairs by pairs, and the others as a plain router does."""

    has_turns = True

    def __init__(
        self,
        registry: Registry,
        make_policy: Callable[[], Policy],
        retry: RetryOptions,
        legs: Legs,
        key_names: Sequence[str] = (),
        pins: Pins | None = None,
        overload: Overload | None = None,
    ) -> None:
        super().__init__(registry, make_policy, retry, key_names, pins, overload)
        self.legs = legs
        # What the halves' policies choose is counted with the rest.
        legs.prefill.choices = legs.decode.choices = self.choices
        registry.on_change(self._on_worker)

    @property
    def reads_body(self) -> bool:
        return True

    @property
    def buffered_because(self) -> str:
        return "pd"

    def has_hint(self, get: hints.Get) -> bool:
        return False

    async def turn(self, call: Call) -> None:
        """Wait for room at a prefill worker and in a decode worker's window. Raises 429 and 503."""
        entry, legs = self._entry(call), self.legs
        if entry is None or not entry.is_paired or call.surface.endpoint not in PAIRED:
            return
        if not all(map(has_room_to_decode, entry.decode)):
            await legs.decode_turns.wait(
                lambda: self._has_room(call, _decodes, has_room_to_decode), call.model
            )
        if legs.prefill_limit is not None:
            await legs.prefill_turns.wait(
                lambda: self._has_room(call, _prefills, legs.has_room_to_prefill), call.model
            )

    async def recall(self, call: Call, get: hints.Get) -> None:
        """As a router does, for each half."""
        entry = self._entry(call)
        if entry is None or not entry.is_paired:
            await super().recall(call, get)
            return
        await self.legs.prefill.recall(call, get)
        await self.legs.decode.recall(call, get)

    def lease(self, call: Call, get: hints.Get, tried: tuple[Worker, ...] = ()) -> Lease:
        """As a router does; for a model of halves a `PairLease`."""
        entry = self._entry(call)
        if entry is None and self._has_halves_only():
            _check_surface(call.surface)
        if entry is None or not entry.is_paired:
            return super().lease(call, get, tried)
        _check_surface(call.surface)
        if not tried:
            self.budget.earn(time.monotonic())
        legs, get = self.legs, _without_tokens(get)
        prefill = legs.prefill.lease_among(self._prefills_of(entry, call), call, get, tried)
        try:
            decode = legs.decode.lease_among(_partners(prefill.worker, entry), call, get, tried)
        except BaseException:
            with prefill:
                pass
            raise
        legs.count(prefill.worker, call.model)
        return PairLease(decode, prefill, self._prefilled, self._decoded)

    def check_surface(self, surface: Surface) -> None:
        if self._has_halves_only():
            _check_surface(surface)

    def has_untried(self, call: Call, tried: tuple[Worker, ...]) -> bool:
        entry = self._entry(call)
        if entry is None or not entry.is_paired:
            return super().has_untried(call, tried)
        now = time.monotonic()

        def usable(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
            return tuple(w for w in workers if w not in tried and w.breaker.would_allow(now))

        others = _protocols(usable(entry.decode))
        return any(worker.fits(others) for worker in usable(entry.prefill))

    def _entry(self, call: Call) -> ModelEntry | None:
        return self._registry.any_entry() if call.model is None else self._registry.find(call.model)

    def _has_halves_only(self) -> bool:
        return all(worker.worker_type != REGULAR for worker in self._registry.any_entry().workers)

    def _prefills_of(self, entry: ModelEntry, call: Call) -> tuple[Worker, ...]:
        """The prefill workers with room that a decode worker can take over from. Raises 429 and 503."""
        model = call.model or ""
        if not entry.prefill or not entry.decode:
            raise errors.no_available_workers(model)
        known = _protocols(entry.decode)
        if not any(worker.fits(known) for worker in entry.prefill):
            raise errors.no_compatible_pd_pair(model)
        fitting = _prefills(entry)
        if not fitting:
            raise errors.no_available_workers(model)
        free = tuple(filter(self.legs.has_room_to_prefill, fitting))
        if not free:
            raise errors.pd_prefill_queue_full()
        return free

    def _has_room(self, call: Call, half: Half, has_room: Callable[[Worker], bool]) -> bool:
        """Also when there is nobody at all: what is wrong then is told when a worker is chosen."""
        entry = self._entry(call)
        workers = half(entry) if entry is not None else ()
        return not workers or any(map(has_room, workers))

    def _prefilled(self) -> None:
        self.legs.prefill_turns.freed()

    def _decoded(self) -> None:
        self.legs.decode_turns.freed()

    def _on_worker(self, change: Change, worker: Worker) -> None:
        if change is Change.REMOVED:
            self.legs.prefilled.pop(worker, None)
        self._prefilled()
        self._decoded()


def _prefills(entry: ModelEntry) -> tuple[Worker, ...]:
    """Those that may be asked and that a decode worker which may be asked can take over from."""
    now = time.monotonic()
    open_ = _protocols(worker for worker in entry.decode if worker.breaker.would_allow(now))
    return tuple(w for w in entry.prefill if w.fits(open_) and w.breaker.would_allow(now))


def _protocols(workers: Iterable[Worker]) -> set[tuple[str, str | None]]:
    return {(worker.runtime, worker.connector) for worker in workers}


def _decodes(entry: ModelEntry) -> tuple[Worker, ...]:
    return entry.decode


def _partners(prefill: Worker, entry: ModelEntry) -> tuple[Worker, ...]:
    """The decode workers that can take over: those that name the same connector if there are any, and of
    them those with room."""
    fitting = tuple(worker for worker in entry.decode if prefill.pairs_with(worker))
    fitting = tuple(worker for worker in fitting if worker.connector == prefill.connector) or fitting
    return tuple(filter(has_room_to_decode, fitting)) or fitting


def _check_surface(surface: Surface) -> None:
    """Raises 501 for what pairs do not serve."""
    if surface.endpoint in PAIRED:
        return
    if surface.not_external is not None:
        raise surface.not_external()
    raise errors.not_for_pairs(surface.endpoint)


def _without_tokens(get: hints.Get) -> hints.Get:
    """The token hint is not for pairs: it tells of one prompt, and both halves route by the body."""
    return lambda name: None if name == hints.ROUTING_TOKENS else get(name)


def has_room_to_decode(worker: Worker) -> bool:
    """Can the engine run one more request at once? True when it does not report what it can run."""
    rows, report = worker.load_rows, worker.report
    if report is None or not rows or not all("max_running_requests" in row for row in rows):
        return True
    window = sum(row["max_running_requests"] for row in rows)
    return window <= 0 or report.running_requests + worker.sent_since_report < window
