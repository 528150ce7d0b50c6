"""What is counted of exchanges: rows of those alike in route, worker and model, added up when scraped.

An exchange costs one look-up of its row and a few increments; every metric that tells them apart in some
other way is made of the rows. Labels come from tables of ours and from the registry, and the number of rows
has a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from smg._fast.limits import Spread

MAX_ROWS = 4096
MAX_OUTCOMES = 64
"""Statuses and codes of a row that are told apart; then only classes of statuses are."""
OTHER = "other"

Outcome = tuple[int, str, bool, bool]
"""Status, the gateway's code or nothing, body passed on unread, stream asked for."""


class Kind(NamedTuple):
    """What sort of worker has served; of a call that came to none, what is usual."""

    router: str = "http"
    backend: str = "regular"
    worker: str = "regular"
    connection: str = "http"


class Row:
    """Exchanges of one route and model at one worker. `worker` is empty when none was chosen, and `model`
    when the call was not read. The last of `durations` and `firsts` is the sum, in seconds."""

    __slots__ = (
        "counts", "durations", "endpoint", "firsts", "kind", "longest", "model", "path", "retried", "routed",
        "worker",
    )  # fmt: skip

    def __init__(
        self, path: str, endpoint: str, worker: str, model: str, kind: Kind, buckets: int, longest: Spread
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.worker = worker
        self.model = model
        self.kind = kind
        self.routed = bool(worker)
        self.longest = longest
        self.counts: dict[Outcome, int] = {}
        self.retried: dict[tuple[int, str], int] = {}
        self.durations: list[float] = [0] * (buckets + 2)
        self.firsts: list[float] = [0] * (buckets + 2)

    def count(self, outcome: Outcome) -> None:
        """The first exchange that ended so."""
        if len(self.counts) >= MAX_OUTCOMES:
            outcome = (outcome[0] // 100 * 100, "", *outcome[2:])
        self.counts[outcome] = self.counts.get(outcome, 0) + 1

    def count_retried(self, status: int, code: str) -> None:
        """An attempt that failed and was followed by another."""
        key = (status, code) if len(self.retried) < MAX_OUTCOMES else (status // 100 * 100, "")
        self.retried[key] = self.retried.get(key, 0) + 1

    def copy(self) -> Row:
        twin = Row(self.path, self.endpoint, self.worker, self.model, self.kind, 0, self.longest)
        twin.routed = self.routed
        twin.counts, twin.retried = self.counts.copy(), self.retried.copy()
        twin.durations, twin.firsts = self.durations.copy(), self.firsts.copy()
        return twin

    def take(self, other: Row) -> None:
        """Add what `other` has counted."""
        for outcome, count in other.counts.items():
            self.counts[outcome] = self.counts.get(outcome, 0) + count
        for key, count in other.retried.items():
            self.retried[key] = self.retried.get(key, 0) + count
        self.durations = added(self.durations, other.durations)
        self.firsts = added(self.firsts, other.firsts)


class Exchanges:
    """The rows by path, worker and model. `live` gives the URLs of the registered workers; `serves` says
    whether a model is known."""

    def __init__(self, buckets: int) -> None:
        self.rows: dict[tuple[str, str, str], Row] = {}
        self.longest: dict[str, Spread] = {}
        self.live: Callable[[], Collection[str]] = tuple
        self.serves: Callable[[str], bool] = lambda model: False
        self._buckets = buckets

    def add(self, path: str, endpoint: str, worker: str, model: str, kind: Kind) -> Row:
        """A new row, or, when there are too many, one that stands for the rest of its route."""
        if len(self.rows) >= MAX_ROWS:
            self.fold()
        key = (path, worker, model)
        if len(self.rows) >= MAX_ROWS:
            worker = model = OTHER if worker else ""
            key = (path, worker, model)
            if key in self.rows:
                return self.rows[key]
        longest = self.longest.setdefault(endpoint, Spread())
        row = Row(path, endpoint, worker, model, kind, self._buckets, longest)
        self.rows[key] = row
        return row

    def fold(self) -> None:
        """Workers that are gone lose their rows; what was counted stays in the sums over all workers."""
        live = self.live()
        for key, row in list(self.rows.items()):
            if not row.worker or row.worker == OTHER or row.worker in live:
                continue
            del self.rows[key]
            gone = (row.path, "/".join(row.kind), row.model)
            left = self.rows.get(gone)
            if left is None:
                row.worker = ""
                self.rows[gone] = row
            else:
                left.take(row)

    def copy(self) -> list[Row]:
        return [row.copy() for row in self.rows.values()]


def added(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]


def error_type(status: int, code: str) -> str | None:
    """The sort of failure; None when it is none."""
    if code == "stream_error" or code == "internal_error":
        return code
    if status < 400:
        return None
    if code in ("model_not_found", "no_available_workers"):
        return "no_workers"
    for statuses, name in (((499,), "client_closed"), ((429,), "rate_limited"), ((408, 504), "timeout")):
        if status in statuses:
            return name
    return "validation_error" if status < 500 else "backend_error"


class Totals:
    """The metrics of a copy of the rows."""

    def __init__(
        self, rows: Sequence[Row], policy: str, policies: Mapping[str, str], buffered_because: str
    ) -> None:
        self._rows = rows
        self._policy = policy
        self._policies = policies
        self._because = buffered_because

    def counters(self) -> Iterable[tuple[str, dict[tuple[str, ...], float]]]:
        """(name, values by labels) of every counter made of rows."""
        sums: dict[str, dict[tuple[str, ...], float]] = {}
        for row in self._rows:
            for name, labels, amount in self._of(row):
                family = sums.setdefault(name, {})
                family[labels] = family.get(labels, 0) + amount
        return sums.items()

    def _of(self, row: Row) -> Iterable[tuple[str, tuple[str, ...], float]]:
        total = sum(row.counts.values())
        attempts = total + sum(row.retried.values())
        yield "smg_http_requests_total", ("POST", row.path), total
        kind = row.kind
        router = (kind.router, kind.backend, kind.connection, row.model, row.endpoint)
        for (status, code, piped, stream), count in row.counts.items():
            yield "smg_http_responses_total", (row.path, str(status), code), count
            if not row.model:
                continue
            yield "smg_router_requests_total", (*router, "true" if stream else "false"), count
            if failure := error_type(status, code):
                yield "smg_router_request_errors_total", (*router, failure), count
            if row.routed:
                way = ("streamed", "body_not_needed") if piped else ("buffered", self._because)
                yield "smg_router_request_body_path_total", way, count
                yield "smg_router_upstream_responses_total", (kind.router, str(status), code), count
        for (status, code), count in row.retried.items():
            yield "smg_router_upstream_responses_total", (kind.router, str(status), code), count
        if row.routed:
            policy = self._policies.get(kind.worker, self._policy)
            selected = (kind.worker, kind.connection, row.model, policy)
            yield "smg_worker_selection_total", selected, attempts
        if row.worker:
            yield "smg_worker_requests_total", (row.worker, row.model), attempts

    def histograms(self) -> Iterable[tuple[str, dict[tuple[str, ...], list[float]]]]:
        """(name, rows by labels) of every histogram made of rows."""
        http: dict[tuple[str, ...], list[float]] = {}
        router: dict[tuple[str, ...], list[float]] = {}
        firsts: dict[tuple[str, ...], list[float]] = {}
        for row in self._rows:
            _add(http, ("POST", row.path), row.durations)
            if row.routed:
                kind = row.kind
                labels = (kind.router, kind.backend, kind.connection, row.model, row.endpoint)
                _add(router, labels, row.durations)
                _add(firsts, (row.model, row.endpoint), row.firsts)
        yield "smg_http_request_duration_seconds", http
        yield "smg_router_request_duration_seconds", router
        yield "smg_router_ttft_seconds", firsts


def _add(sums: dict[tuple[str, ...], list[float]], labels: tuple[str, ...], row: list[float]) -> None:
    before = sums.get(labels)
    sums[labels] = row if before is None else added(before, row)
