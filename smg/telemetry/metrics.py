"""What is counted, and what is read when somebody looks: counters, histograms, and readers of live objects.

A scrape has two steps: `snapshot` on the loop copies every number, so that no histogram is caught between
its buckets and its sum; `render` makes the text of the copy, in any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from smg._fast.limits import Spread
from smg.telemetry.exchanges import OTHER, Exchanges, Row, Totals, added
from smg.telemetry.exposition import Labels, Sample, histogram_lines, scalar_lines
from smg.telemetry.exposition import Row as HistogramRow
from smg.telemetry.failures import Failures
from smg.telemetry.families import FAMILIES, HISTOGRAM

DURATION_BUCKETS = (
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 45, 60, 90,
    120, 180, 240, 300, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip
MAX_LABEL_SETS = 4096

Reader = Callable[[], Iterable[Sample]]
RowReader = Callable[[], Iterable[HistogramRow]]

_BY_NAME = {family.name: family for family in FAMILIES}


class Counter:
    """Counts by label values. The values come from tables of our own, never from a request."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[Labels, int] = {}

    def add(self, labels: Labels, amount: int = 1) -> None:
        if labels not in self.values and len(self.values) >= MAX_LABEL_SETS:
            labels = (OTHER,) * len(labels)
        self.values[labels] = self.values.get(labels, 0) + amount


class Histogram:
    """Counts by label values and bucket; `bounds` ascending."""

    __slots__ = ("bounds", "values")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.values: dict[Labels, list[float]] = {}

    def add(self, labels: Labels, value: float) -> None:
        row = self.values.get(labels)
        if row is None:
            if len(self.values) >= MAX_LABEL_SETS:
                labels = (OTHER,) * len(labels)
            row = self.values.setdefault(labels, [0] * (len(self.bounds) + 2))
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def rows(self) -> list[HistogramRow]:
        return [(labels, row.copy()) for labels, row in self.values.items()]


class Snapshot(NamedTuple):
    """Every number at one moment, by family."""

    scalars: dict[str, list[Sample]]
    rows: dict[str, tuple[Sequence[float], list[HistogramRow]]]
    exchanges: list[Row]


class Metrics:
    """The counters of the process. What belongs to other objects is plugged in by its name in the table."""

    def __init__(self, bounds: Sequence[float] = ()) -> None:
        self.bounds = tuple(bounds) or DURATION_BUCKETS
        self.exchanges = Exchanges(len(self.bounds))
        self.policy = ""
        self.policies: dict[str, str] = {}
        """By worker type, of those that have one of their own."""
        self.buffered_because = "retryable"
        self.routes = Counter()
        """Requests that aiohttp has answered: method, route, status, code."""
        self.route_durations = Histogram(self.bounds)
        self.retries = Counter()
        self.retries_exhausted = Counter()
        self.backoffs = Histogram(self.bounds)
        self.breaker_transitions = Counter()
        self.failures = Failures()
        self._readers: dict[str, Reader] = {}
        self._slow_readers: dict[str, Reader] = {}
        self._row_readers: dict[str, tuple[Sequence[float], RowReader]] = {}
        self.plug("smg_worker_retries_total", self.retries.values.items)
        self.plug("smg_worker_retries_exhausted_total", self.retries_exhausted.values.items)
        self.plug("smg_worker_cb_transitions_total", self.breaker_transitions.values.items)
        self.plug_rows("smg_worker_retry_backoff_seconds", self.bounds, self.backoffs.rows)
        self.plug_rows("smg_router_stream_longest_gap_seconds", Spread.bounds(), self._longest_gaps)

    def plug(self, name: str, reader: Reader) -> None:
        """`reader` is called on the loop and gives (labels, value) pairs."""
        assert _BY_NAME[name].kind != HISTOGRAM
        self._readers[name] = reader

    def plug_slow(self, name: str, reader: Reader) -> None:
        """`reader` may wait for the disk: it is called where the text is made, in another thread."""
        assert _BY_NAME[name].kind != HISTOGRAM
        self._slow_readers[name] = reader

    def plug_rows(self, name: str, bounds: Sequence[float], reader: RowReader) -> None:
        """`reader` is called on the loop and gives a histogram's rows, which are not changed afterwards."""
        assert _BY_NAME[name].kind == HISTOGRAM
        self._row_readers[name] = (tuple(bounds), reader)

    def read(self, name: str) -> list[Sample]:
        """What is plugged in under a name says now; nothing when nothing is."""
        reader = self._readers.get(name)
        return list(reader()) if reader is not None else []

    def snapshot(self) -> Snapshot:
        self.exchanges.fold()
        return Snapshot(
            {name: list(reader()) for name, reader in self._readers.items()},
            {name: (bounds, list(reader())) for name, (bounds, reader) in self._row_readers.items()},
            self.exchanges.copy(),
        )

    def render(self, snapshot: Snapshot | None = None) -> bytes:
        """The text of a snapshot, or of one taken now."""
        scalars, rows, exchanges = snapshot or self.snapshot()
        totals = Totals(exchanges, self.policy, self.policies, self.buffered_because)
        sums: dict[str, dict[Labels, float]] = dict(totals.counters())
        histograms: dict[str, dict[Labels, list[float]]] = dict(totals.histograms())
        self._add_routes(sums, histograms)
        for name, reader in self._slow_readers.items():
            scalars[name] = list(reader())
        text = []
        for family in FAMILIES:
            if family.name in rows:
                text.append(histogram_lines(family, *rows[family.name]))
            elif family.name in histograms:
                text.append(histogram_lines(family, self.bounds, histograms[family.name].items()))
            elif samples := [*scalars.get(family.name, ()), *sums.get(family.name, {}).items()]:
                text.append(scalar_lines(family, samples))
        return "".join(text).encode()

    def _add_routes(
        self, sums: dict[str, dict[Labels, float]], histograms: dict[str, dict[Labels, list[float]]]
    ) -> None:
        requests = sums.setdefault("smg_http_requests_total", {})
        answers = sums.setdefault("smg_http_responses_total", {})
        durations = histograms.setdefault("smg_http_request_duration_seconds", {})
        for (method, *answer), count in self.routes.values.copy().items():
            key = (method, answer[0])
            requests[key] = requests.get(key, 0) + count
            answers[tuple(answer)] = answers.get(tuple(answer), 0) + count
        for labels, row in self.route_durations.rows():
            durations[labels] = added(durations[labels], row) if labels in durations else list(row)

    def _longest_gaps(self) -> list[HistogramRow]:
        return [((endpoint,), spread.row()) for endpoint, spread in self.exchanges.longest.items()]
