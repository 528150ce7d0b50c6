"""The last step of every exchange: counted once, logged in one line."""

from __future__ import annotations

import time

from smg._fast.exchange import Exchange
from smg.telemetry import logs
from smg.telemetry.metrics import Metrics
from smg.workers.worker import Worker

log = logs.get("request")
CLIENT_CLOSED = 499
"""What stands for a status when the client left before it got one (nginx's number)."""


class Recorder:
    """Called once for each exchange, whatever became of it."""

    def __init__(self, metrics: Metrics, policy: str, reads_body: bool) -> None:
        self._metrics = metrics
        self._policy = policy
        self._read = ("buffered", "policy_needs_text" if reads_body else "retryable")
        self._labels: dict[str, tuple[tuple[str, str], tuple[str]]] = {}

    def __call__(self, x: Exchange) -> None:
        metrics = self._metrics
        surface = x.route
        labels = self._labels.get(surface.path)
        if labels is None:
            # One entry a route: the path comes from the table, not from the request.
            labels = self._labels[surface.path] = (("POST", surface.path), (surface.endpoint,))
        seconds = (time.monotonic_ns() - x.begun_ns) * 1e-9
        status = x.status or CLIENT_CLOSED
        code = str(x.error.code) if x.error is not None else ""
        metrics.requests.add(labels[0])
        metrics.responses.add((surface.path, str(status), code))
        metrics.durations.observe(labels[0], seconds)
        if x.first_byte_ns:
            metrics.first_bytes.observe(labels[1], (x.first_byte_ns - x.begun_ns) * 1e-9)
        if x.worker is not None:
            self._count_choice(x, x.worker)
        if not log.shows_info:
            return
        log.info(
            "request",
            request_id=x.request_id.decode("latin-1"),
            path=surface.path,
            status=status,
            code=code,
            model=x.call.model if x.call is not None else None,
            worker=x.worker.url if x.worker is not None else None,
            attempts=x.attempts,
            stream=x.stream,
            client_left=x.client_left,
            seconds=round(seconds, 6),
            bytes=x.sent_bytes,
        )

    def _count_choice(self, x: Exchange, worker: Worker) -> None:
        metrics, model = self._metrics, x.call.model
        shown = model if model in worker.models else "other"
        metrics.worker_requests.add((worker.url,))
        metrics.selections.add((worker.worker_type, worker.connection_mode, shown, self._policy))
        metrics.body_paths.add(("streamed", "body_not_needed") if x.piped else self._read)
