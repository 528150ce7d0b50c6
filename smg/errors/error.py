"""The one exception that a step raises, how it is shown, and what may be tried again after it.

The two shapes for serving routes are those of the specification ("Error Responses"); `/workers` has
its own. An error that a worker answered is relayed and never becomes a `GatewayError`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec

ERROR_CODE_HEADER = "X-SMG-Error-Code"


# The IANA phrases, except 413 and 422, fixed here so that no Python version changes a body.
REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Payload Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    421: "Misdirected Request",
    422: "Unprocessable Entity",
    423: "Locked",
    424: "Failed Dependency",
    425: "Too Early",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    451: "Unavailable For Legal Reasons",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
    507: "Insufficient Storage",
    508: "Loop Detected",
    511: "Network Authentication Required",
}


def reason(status: int) -> str:
    """The phrase of a status; a worker may answer with any."""
    return REASONS.get(status, "Unknown")


class Shape(enum.Enum):
    """How the body of an error is written."""

    ENVELOPE = "envelope"
    REQUEST = "request"
    ADMIN = "admin"
    PLAIN = "plain"
    EMPTY = "empty"


class Source(enum.Enum):
    """Who is to blame; metrics and the breaker ask."""

    CLIENT = "client"
    WORKER = "worker"
    GATEWAY = "gateway"


class Retry(enum.Enum):
    """May the request be tried again: never, on an untried worker only, or on any."""

    NO = "no"
    OTHER_WORKER = "other_worker"
    YES = "yes"


RETRYABLE = frozenset({408, 429, 502, 503, 504})


ELSEWHERE = frozenset({500})
"""Statuses that are tried again: on any worker, or only on one that was not tried."""


def retry_of_status(status: int, own: Collection[int] | None = None) -> Retry:
    """May a request be tried again after a worker answered `status`? `own`: the statuses of which that
    worker's specification says so, in place of the usual ones."""
    if own is not None:
        if status not in own:
            return Retry.NO
        return Retry.OTHER_WORKER if status in ELSEWHERE else Retry.YES
    if status in RETRYABLE:
        return Retry.YES
    return Retry.OTHER_WORKER if status in ELSEWHERE else Retry.NO


class GatewayError(Exception):
    """An answer the gateway gives by itself. `headers` are added to the answer."""

    __slots__ = ("code", "headers", "message", "retry", "shape", "source", "status")

    def __init__(
        self,
        status: int,
        code: str | int,
        message: str,
        shape: Shape = Shape.ENVELOPE,
        source: Source = Source.GATEWAY,
        retry: Retry = Retry.NO,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.shape = shape
        self.source = source
        self.retry = retry
        self.headers = headers


def told_code(error: GatewayError) -> str:
    """The code as a client sees it; empty where the body has none."""
    return "" if error.shape in (Shape.EMPTY, Shape.PLAIN) else str(error.code)


def render(error: GatewayError) -> tuple[list[tuple[str, str]], bytes]:
    """Headers (`Content-Type` and the error's own) and body of an error's answer."""
    headers = list(error.headers)
    if error.shape is Shape.EMPTY:
        return headers, b""
    if error.shape is Shape.PLAIN:
        return [("Content-Type", "text/plain; charset=utf-8"), *headers], error.message.encode()
    if error.shape is Shape.ADMIN:
        admin = msgspec.json.encode({"error": error.message, "code": error.code})
        return [("Content-Type", "application/json"), *headers], admin
    if error.shape is Shape.REQUEST:
        inner: dict[str, object] = {
            "message": error.message,
            "type": "invalid_request_error",
            "code": error.code,
        }
    else:
        inner = {
            "type": reason(error.status),
            "code": error.code,
            "message": error.message,
            "param": None,
        }
        headers.insert(0, (ERROR_CODE_HEADER, str(error.code)))
    return [("Content-Type", "application/json"), *headers], msgspec.json.encode({"error": inner})


def stream_error_frame(message: str) -> bytes:
    """The server-sent event that ends a broken stream of an HTTP worker, without `[DONE]`."""
    body = msgspec.json.encode({"error": {"message": message, "type": "stream_error"}})
    return b"data: " + body + b"\n\n"
