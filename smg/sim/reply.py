"""The client side of one exchange with the simulated engine: one answer, or a stream of events.

No task per request: a reply is written by whoever holds it, and says through `on_lost` when nothing
more can be written, because the client left or a fault broke the reply off.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from smg.sim.faults import Cut
from smg.sim.http import Request

if TYPE_CHECKING:
    from smg.sim.connection import Connection

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
# A cut waits this long, so that the events before it leave the socket first.
CUT_DELAY_SECS = 0.02

_REASONS = {status.value: status.phrase.encode() for status in http.HTTPStatus}
_COMMON = b"server: smg-sim\r\nx-simulated: 1\r\n"
_EVENTS_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
)


def answer_head(status: int, content_type: bytes, length: int) -> bytes:
    """The head of an answer, without the empty line at its end."""
    reason = _REASONS.get(status, b"Status")
    head = b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\n%bcontent-length: %d\r\n"
    return head % (status, reason, content_type, _COMMON, length)


class Reply:
    """The client side of one exchange: one answer, or a stream of server-sent events."""

    __slots__ = (
        "_connection",
        "_held",
        "_is_chunked",
        "_transport",
        "cut",
        "events_sent",
        "is_broken",
        "is_done",
        "is_lost",
        "is_writable",
        "on_lost",
        "on_writable",
        "request",
    )

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self._transport = connection.transport
        self._is_chunked = not request.is_http10
        self.request = request
        self._held: list[bytes] | None = None
        self.cut: Cut | None = None
        self.events_sent = 0
        self.is_broken = False  # we ended it on purpose, before its time
        self.is_done = False
        self.is_lost = False  # nothing can be written any more, whoever ended it
        self.is_writable = True
        self.on_lost: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    def answer(self, status: int, body: bytes, content_type: bytes = JSON) -> None:
        """Write a whole answer and end the exchange."""
        if self.is_done or self.is_lost:
            return
        head = answer_head(status, content_type, len(body))
        if self.cut is not None:
            self._transport.write(head + b"\r\n" + body[: len(body) // 2])
            self._break(self.cut)
            return
        self._transport.write(head + self._closing() + body)
        self._end()

    def start_events(self) -> None:
        framing = b"transfer-encoding: chunked\r\n" if self._is_chunked else b""
        self._connection.request_keeps_alive &= self._is_chunked
        self._transport.write(_EVENTS_HEAD + _COMMON + framing + self._closing())

    def event(self, data: bytes) -> None:
        """Write one event (its bytes with the empty line at the end), in a write of its own unless held."""
        if self.is_lost:
            return
        if self.cut is not None and self.events_sent >= self.cut.after_events:
            self._break(self.cut)
            return
        self.events_sent += 1
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def hold(self) -> None:
        """Keep events until `flush`, which writes them at once."""
        self._held = []

    def flush(self) -> None:
        held, self._held = self._held, None
        if held:
            self._transport.write(b"".join(held))

    def end_events(self) -> None:
        if self.is_lost:
            return
        if self.cut is not None and self.events_sent >= self.cut.after_events:
            self._break(self.cut)
            return
        if self._is_chunked:
            self._transport.write(b"0\r\n\r\n")
        self._end()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.is_broken = True
        self._lose()
        if not self._transport.is_closing():
            endpoint = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def hang_up(self) -> None:
        """Close the connection in an orderly way, whatever was promised."""
        self.is_broken = True
        self._lose()
        self._transport.close()

    def lost(self) -> None:
        """The client left; called by the connection."""
        if not self.is_done:
            self._lose()

    def _closing(self) -> bytes:
        return b"\r\n" if self._connection.request_keeps_alive else b"connection: close\r\n\r\n"

    def _end(self) -> None:
        self.is_done = True
        self.on_lost = self.on_writable = None
        self._connection.reply_ended()

    def _lose(self) -> None:
        """Tell the writer, once, that nothing more can be written."""
        self.is_lost = True
        on_lost, self.on_lost, self.on_writable = self.on_lost, None, None
        if on_lost is not None:
            on_lost()

    def _break(self, cut: Cut) -> None:
        self.is_broken = True
        self.flush()
        self._lose()
        action = {"reset": self.reset, "close": self.hang_up}.get(cut.how)
        if action is not None:
            asyncio.get_running_loop().call_later(CUT_DELAY_SECS, action)
