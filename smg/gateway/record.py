"""The last step of every exchange: counted once, logged in one line."""

from __future__ import annotations

import time
from bisect import bisect_left

from smg._fast.exchange import Exchange
from smg.api.surfaces import Surface
from smg.telemetry import logs
from smg.telemetry.metrics import Metrics

log = logs.get("request")
CLIENT_CLOSED = 499
"""What stands for a status when the client left before it got one (nginx's number)."""


class Recorder:
    """Called once for each exchange, whatever became of it."""

    def __init__(self, metrics: Metrics) -> None:
        self._ended = metrics.ended
        self._bounds = metrics.durations.bounds
        # One entry a route: the path comes from the table, not from the request.
        self._rows: dict[str, tuple[list[float], list[float]]] = {}
        self._metrics = metrics

    def __call__(self, x: Exchange) -> None:
        surface, worker, status = x.route, x.worker, x.status or CLIENT_CLOSED
        begun_ns, first_ns = x.begun_ns, x.first_byte_ns
        seconds = (time.monotonic_ns() - begun_ns) * 1e-9
        code = str(x.error.code) if x.error is not None else ""
        if worker is not None:
            model = x.call.model
            key = (
                surface.path,
                status,
                code,
                worker.url,
                model if model in worker.models else "other",
                x.piped,
            )
        else:
            key = (surface.path, status, code, "", "", False)
        self._ended[key] = self._ended.get(key, 0) + 1
        durations, first_bytes = self._rows.get(surface.path) or self._new_rows(surface)
        durations[bisect_left(self._bounds, seconds)] += 1
        durations[-1] += seconds
        if first_ns:
            first_s = (first_ns - begun_ns) * 1e-9
            first_bytes[bisect_left(self._bounds, first_s)] += 1
            first_bytes[-1] += first_s
        if log.shows_info:
            self._log(x, status, code, seconds)

    def _new_rows(self, surface: Surface) -> tuple[list[float], list[float]]:
        rows = (
            self._metrics.durations.row(("POST", surface.path)),
            self._metrics.first_bytes.row((surface.endpoint,)),
        )
        self._rows[surface.path] = rows
        return rows

    def _log(self, x: Exchange, status: int, code: str, seconds: float) -> None:
        log.info(
            "request",
            request_id=x.request_id.decode("latin-1"),
            path=x.route.path,
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
