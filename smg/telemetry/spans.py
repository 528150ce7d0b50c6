"""Spans to a collector by OTLP over gRPC, from a thread of its own behind a bounded queue.

Only imported with --enable-trace; needs the extra `otel`. A collector that cannot be reached costs lost
spans and a line in the log now and then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import smg
from smg.telemetry import logs
from smg.telemetry.exposition import Sample
from smg.telemetry.trace import Span

log = logs.get(__name__)

QUEUE_SPANS = 4096
BATCH_SPANS = 512
PAUSE_S = 1.0
EXPORT_S = 5.0
CLOSE_S = 2.0
COMPLAIN_S = 60.0
_OTLP = "opentelemetry.exporter.otlp.proto.grpc"


class SpanSender:
    """`emit` takes a span and never waits. `endpoint`: host:port, or a URL whose https asks for TLS."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._queue: deque[Span] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._exporter = _exporter(endpoint)
        self._complained_at = -COMPLAIN_S
        self.sent = 0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="smg-spans", daemon=True)
        self._thread.start()

    def emit(self, span: Span) -> None:
        if len(self._queue) >= QUEUE_SPANS:
            self.lost += 1
            return
        self._queue.append(span)
        if len(self._queue) >= BATCH_SPANS:
            self._wake.set()

    def samples(self) -> Iterable[Sample]:
        return [(("sent",), self.sent), (("lost",), self.lost)]

    def close(self) -> None:
        """Send what is left, within a bound; blocks."""
        self._stopping = True
        self._wake.set()
        self._thread.join(CLOSE_S)
        # Ends an export under way.
        self._exporter.shutdown()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(PAUSE_S)
            self._wake.clear()
            while self._queue and not self._stopping:
                self._send()
        while self._queue and self._send():
            pass

    def _send(self) -> bool:
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_SPANS))]
        try:
            is_sent = bool(self._exporter.export(_readable(batch)).name == "SUCCESS")
        except Exception as problem:  # the library's, whatever it is: this thread must live on
            log.debug("spans not exported", problem=type(problem).__name__)
            is_sent = False
        if is_sent:
            self.sent += len(batch)
        else:
            self.lost += len(batch)
            self._complain()
        return is_sent

    def _complain(self) -> None:
        now = time.monotonic()
        if now - self._complained_at >= COMPLAIN_S:
            self._complained_at = now
            log.warn("spans lost: the collector did not take them", endpoint=self._endpoint, lost=self.lost)


def _exporter(endpoint: str) -> Any:
    # It reports each try by itself; one line of ours now and then has to do.
    logging.getLogger(f"{_OTLP}.exporter").disabled = True
    exporters = import_module(f"{_OTLP}.trace_exporter")
    is_open = not endpoint.startswith("https://")
    return exporters.OTLPSpanExporter(endpoint=endpoint, insecure=is_open, timeout=EXPORT_S)


def _readable(spans: Iterable[Span]) -> list[Any]:
    """Spans as the exporter wants them, their times by the wall clock."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    resource = Resource.create({"service.name": "smg", "service.version": smg.__version__})
    scope = InstrumentationScope("smg", smg.__version__)
    to_wall_ns = time.time_ns() - time.monotonic_ns()
    flags = TraceFlags(TraceFlags.SAMPLED)

    def readable(span: Span) -> ReadableSpan:
        trace_id = int(span.trace_id, 16)
        parent = None
        if span.parent_id:
            parent = SpanContext(
                trace_id, int(span.parent_id, 16), is_remote=span.is_server, trace_flags=flags
            )
        return ReadableSpan(
            span.name,
            SpanContext(trace_id, int(span.span_id, 16), is_remote=False, trace_flags=flags),
            parent,
            resource,
            dict(span.attributes),
            kind=SpanKind.SERVER if span.is_server else SpanKind.CLIENT,
            status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
            start_time=span.begun_ns + to_wall_ns,
            end_time=span.ended_ns + to_wall_ns,
            instrumentation_scope=scope,
        )

    return list(map(readable, spans))
