"""Every metric: name, help and labels; counted in plain dictionaries and rendered when scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

DURATION_BUCKETS = (
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 45, 60, 90,
    120, 180, 240, 300, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip

Sample = tuple[tuple[str, ...], float]
Reader = Callable[[], Iterable[Sample]]


class Counter:
    """Counts by label values. The values come from tables of our own, never from a request."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], int] = {}

    def add(self, labels: tuple[str, ...], amount: int = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount


class Ended(NamedTuple):
    """What the counters of exchanges are told apart by; `worker` and `model` are empty before the choice."""

    path: str
    status: int
    code: str
    worker: str
    model: str
    piped: bool


class Histogram:
    """Counts by label values and bucket; `bounds` in seconds, ascending."""

    __slots__ = ("bounds", "values")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.values: dict[tuple[str, ...], list[float]] = {}

    def row(self, labels: tuple[str, ...]) -> list[float]:
        """The buckets of these labels and the sum: what `bisect_left` over `bounds` counts into."""
        return self.values.setdefault(labels, [0.0] * (len(self.bounds) + 2))


class Metrics:
    """`gauges` are read at scrape time by (name, help, labels, reader)."""

    def __init__(self, bounds: Sequence[float] = ()) -> None:
        bounds = bounds or DURATION_BUCKETS
        # One look-up an exchange; the metrics made of it are added up when they are scraped.
        self.ended: dict[tuple[str, int, str, str, str, bool], int] = {}
        self.policy = ""
        self.buffered_because = "retryable"
        self.durations = Histogram(bounds)
        self.first_bytes = Histogram(bounds)
        self.breaker_transitions = Counter()
        self._gauges: list[tuple[str, str, tuple[str, ...], Reader]] = []
        self._counters: list[tuple[str, str, tuple[str, ...], Reader]] = []

    def gauge(self, name: str, text: str, labels: tuple[str, ...], reader: Reader) -> None:
        self._gauges.append((name, text, labels, reader))

    def counter(self, name: str, text: str, labels: tuple[str, ...], reader: Reader) -> None:
        self._counters.append((name, text, labels, reader))

    def listed(self) -> list[tuple[str, str, str, tuple[str, ...]]]:
        """(name, kind, help, labels) of every metric, in the order they are rendered."""
        counters = [(name, "counter", text, labels) for name, text, labels, _ in self._all_counters()]
        gauges = [(name, "gauge", text, labels) for name, text, labels, _ in self._gauges]
        histograms = [(name, "histogram", text, labels) for name, text, labels, _ in self._histograms()]
        return [*counters, *gauges, *histograms]

    def render(self) -> bytes:
        """The text exposition format."""
        # Imported when first scraped: a gateway nobody scrapes does without.
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            Metric,
        )
        from prometheus_client.exposition import generate_latest
        from prometheus_client.registry import Collector, CollectorRegistry

        metrics = self

        class Snapshot(Collector):
            def collect(self) -> Iterable[Metric]:
                for name, text, labels, reader in metrics._all_counters():
                    family = CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)
                    for values, amount in reader():
                        family.add_metric(values, amount)
                    yield family
                for name, text, labels, reader in metrics._gauges:
                    gauge = GaugeMetricFamily(name, text, labels=labels)
                    for values, amount in reader():
                        gauge.add_metric(values, amount)
                    yield gauge
                for name, text, labels, histogram in metrics._histograms():
                    shown = HistogramMetricFamily(name, text, labels=labels)
                    for values, row in list(histogram.values.items()):
                        shown.add_metric(values, _cumulated(histogram.bounds, row), row[-1])
                    yield shown

        registry = CollectorRegistry(auto_describe=False)
        registry.register(Snapshot())
        return generate_latest(registry)

    def _by(self, labels: Callable[[Ended], tuple[str, ...] | None]) -> Reader:
        """The exchanges added up by the labels; those that have none are left out."""

        def read() -> Iterable[Sample]:
            totals: dict[tuple[str, ...], float] = {}
            for key, count in self.ended.copy().items():
                values = labels(Ended(*key))
                if values is not None:
                    totals[values] = totals.get(values, 0) + count
            return totals.items()

        return read

    def _body_path(self, ended: Ended) -> tuple[str, ...] | None:
        if not ended.worker:
            return None
        return ("streamed", "body_not_needed") if ended.piped else ("buffered", self.buffered_because)

    def _all_counters(self) -> Iterable[tuple[str, str, tuple[str, ...], Reader]]:
        yield from self._counters
        yield (
            "smg_http_requests_total",
            "Requests by route.",
            ("method", "path"),
            self._by(lambda e: ("POST", e.path)),
        )
        yield (
            "smg_http_responses_total",
            "Answers by route, status and the gateway's error code.",
            ("path", "status_code", "error_code"),
            self._by(lambda e: (e.path, str(e.status), e.code)),
        )
        yield (
            "smg_worker_requests_total",
            "Requests a worker was chosen for.",
            ("worker",),
            self._by(lambda e: (e.worker,) if e.worker else None),
        )
        yield (
            "smg_worker_selection_total",
            "Workers chosen, by model and policy; models nobody is known to serve are `other`.",
            ("worker_type", "connection_mode", "model", "policy"),
            self._by(lambda e: ("regular", "http", e.model, self.policy) if e.worker else None),
        )
        yield (
            "smg_router_request_body_path_total",
            "Bodies read before a worker was chosen, or passed on as they came.",
            ("path", "reason"),
            self._by(self._body_path),
        )
        yield (
            "smg_worker_cb_transitions_total",
            "Changes of a worker's circuit breaker.",
            ("worker", "from", "to"),
            self.breaker_transitions.values.copy().items,
        )

    def _histograms(self) -> Iterable[tuple[str, str, tuple[str, ...], Histogram]]:
        yield (
            "smg_http_request_duration_seconds",
            "From a request's head to the end of its answer.",
            ("method", "path"),
            self.durations,
        )
        yield (
            "smg_router_ttft_seconds",
            "From a request's head to the first byte of the worker's answer.",
            ("endpoint",),
            self.first_bytes,
        )


def _cumulated(bounds: Sequence[float], row: Sequence[float]) -> list[tuple[str, float]]:
    total, buckets = 0.0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), row, strict=False):
        total += count
        buckets.append((bound, total))
    return buckets
