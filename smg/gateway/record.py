"""The last step of every exchange: counted once, logged in one line."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg.errors import GatewayError
from smg.telemetry import logs
from smg.telemetry.exchanges import OTHER, Kind, Row
from smg.telemetry.metrics import Metrics
from smg.workers.worker import Worker

log = logs.get("request")
CLIENT_CLOSED = 499
"""What stands for a status when the client left before it had its whole answer (nginx's number)."""
CLIENT_CLOSED_CODE = "client_closed_request"
STREAM_ERROR = "stream_error"
NO_MODEL = "unknown"
MAX_SHOWN = 256
"""Characters of a name that comes from the client, in a span or a log line."""
_USUAL = Kind()


class Recorder:
    """Called once for each exchange, whatever became of it, and told of attempts that others followed.

    `context`: (lower-case header, key) of what is noted of a request besides.
    """

    def __init__(self, metrics: Metrics, context: Sequence[tuple[bytes, str]] = ()) -> None:
        self._metrics = metrics
        self._context = context
        self._exchanges = metrics.exchanges
        self._rows = metrics.exchanges.rows
        self._bounds = metrics.bounds

    def __call__(self, x: Exchange) -> None:
        seconds = (time.monotonic_ns() - x.begun_ns) * 1e-9
        status = x.status or CLIENT_CLOSED
        code = told = ""
        if x.client_left:
            status, code = CLIENT_CLOSED, CLIENT_CLOSED_CODE
            told = code
        elif x.error is not None:
            code, told = str(x.error.code), errors.told_code(x.error)
        elif x.outcome == fast.BROKEN:
            code = told = STREAM_ERROR
        row = self._row(x, x.worker)
        outcome = (status, told, x.piped, x.stream)
        counts = row.counts
        if outcome in counts:
            counts[outcome] += 1
        else:
            row.count(outcome)
        durations = row.durations
        durations[bisect_left(self._bounds, seconds)] += 1
        durations[-1] += seconds
        first_ns = x.first_event_ns or x.first_byte_ns
        if first_ns:
            first_s = (first_ns - x.begun_ns) * 1e-9
            firsts = row.firsts
            firsts[bisect_left(self._bounds, first_s)] += 1
            firsts[-1] += first_s
            if x.longest_gap_s:
                row.longest.add(x.longest_gap_s)
        if x.attempts > 1:
            self._note_retries(x, row, status)
        if (status >= 400 or code) and status != CLIENT_CLOSED:
            self._remember(x, status, code)
        if x.trace is not None:
            _end_trace(x, status, code, self._context_of(x))
        if log.shows_info:
            self._log(x, status, code, seconds)

    def retried(self, x: Exchange, worker: Worker, failed: GatewayError | None, pause_s: float) -> None:
        """An attempt failed, and another follows after `pause_s`. `failed`: why there was no answer."""
        if failed is not None:
            status, code = failed.status, str(failed.code)
        else:
            status, code = x.answer_head.status if x.answer_head is not None else 0, ""
        self._row(x, worker).count_retried(status, code)
        self._metrics.backoffs.add((str(x.attempts),), pause_s)
        if x.trace is not None:
            x.trace.attempt_ended(status, code)

    def _remember(self, x: Exchange, status: int, code: str) -> None:
        model = x.call.model if x.call is not None else None
        worker = x.worker.url if x.worker is not None else ""
        request_id = x.request_id.decode("latin-1")
        self._metrics.failures.add(x.route.path, status, code, model or "", worker, request_id)

    def _row(self, x: Exchange, worker: Worker | None) -> Row:
        path, call = x.route.path, x.call
        if worker is not None:
            model = call.model
            if model not in worker.models:
                model = _label_of(model, worker)
            return self._rows.get((path, worker.url, model)) or self._new_row(x, worker, model)
        model = ""
        if call is not None:
            model = call.model or NO_MODEL
            if model != NO_MODEL and not self._exchanges.serves(model):
                model = OTHER
        return self._rows.get((path, "", model)) or self._new_row(x, None, model)

    def _new_row(self, x: Exchange, worker: Worker | None, model: str) -> Row:
        surface = x.route
        if worker is None:
            return self._exchanges.add(surface.path, surface.endpoint, "", model, _USUAL)
        return self._exchanges.add(surface.path, surface.endpoint, worker.url, model, _kind_of(worker))

    def _note_retries(self, x: Exchange, row: Row, status: int) -> None:
        labels = (row.kind.worker, row.endpoint)
        self._metrics.retries.add(labels, x.attempts - 1)
        if x.error is not None:
            is_lost = x.error.retry is not errors.Retry.NO
        else:
            own = x.worker.retryable if x.worker is not None else None
            is_lost = errors.retry_of_status(status, own) is not errors.Retry.NO
        if is_lost:
            self._metrics.retries_exhausted.add(labels)

    def _log(self, x: Exchange, status: int, code: str, seconds: float) -> None:
        log.info(
            "request",
            request_id=x.request_id.decode("latin-1"),
            path=x.route.path,
            status=status,
            code=code,
            model=x.call.model[:MAX_SHOWN] if x.call is not None and x.call.model is not None else None,
            worker=x.worker.url if x.worker is not None else None,
            attempts=x.attempts,
            stream=x.stream,
            client_left=x.client_left,
            seconds=round(seconds, 6),
            ttft=round(_first_s(x), 6) if x.first_byte_ns else None,
            longest_gap=round(x.longest_gap_s, 6) if x.stream else None,
            bytes=x.sent_bytes,
            **({"trace_id": x.trace.trace_id} if x.trace is not None else {}),
            **({"context": self._context_of(x)} if self._context else {}),
        )

    def _context_of(self, x: Exchange) -> dict[str, str]:
        found = ((key, x.head.get(header)) for header, key in self._context)
        return {key: value.decode("latin-1")[:MAX_SHOWN] for key, value in found if value is not None}


def _first_s(x: Exchange) -> float:
    """Time to the first event of a stream, or to the head of a plain answer."""
    return ((x.first_event_ns or x.first_byte_ns) - x.begun_ns) * 1e-9


def _end_trace(x: Exchange, status: int, code: str, context: dict[str, str]) -> None:
    path, call = x.route.path, x.call
    attributes: dict[str, str | int | float | bool] = {
        "http.request.method": "POST",
        "http.route": path,
        "smg.request_id": x.request_id.decode("latin-1"),
        "smg.attempts": x.attempts,
        "smg.stream": x.stream,
    }
    attributes |= {f"smg.context.{key}": value for key, value in context.items()}
    if call is not None and call.model is not None:
        attributes["gen_ai.request.model"] = call.model[:MAX_SHOWN]
    if x.worker is not None:
        attributes["smg.worker"] = x.worker.url
    if x.first_byte_ns:
        attributes["smg.ttft_s"] = _first_s(x)
    if x.longest_gap_s:
        attributes["smg.longest_gap_s"] = x.longest_gap_s
    x.trace.end(f"POST {path}", status, code, attributes)


def _label_of(model: str | None, worker: Worker) -> str:
    """The label of a model that the worker does not list, or of none."""
    if model is not None:
        return OTHER
    return worker.model_id if len(worker.models) == 1 else NO_MODEL


def _kind_of(worker: Worker) -> Kind:
    backend = "external" if worker.is_external else "regular"
    if worker.worker_type in ("prefill", "decode"):
        backend = "pd"
    return Kind(worker.connection_mode, backend, worker.worker_type, worker.connection_mode)
