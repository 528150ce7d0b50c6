"""Transports, timers and limits that only do what a test tells them: no sockets, no waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from smg._fast.deadlines import Deadlines
from smg._fast.limits import Limits

BROKEN = b'data: {"error": {"message": "broken", "type": "stream_error"}}\n\n'
TIMED_OUT = b'data: {"error": {"message": "late", "type": "stream_error"}}\n\n'
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


class Flag(int):
    """A truth that can be asked for with a call, as real transports have it, and without one."""

    def __call__(self) -> bool:
        return bool(self)


class FakeTransport:
    """One end of a connection. What the protocol writes is in `writes`; what the peer sends goes through
    `deliver`. `full_above`: unsent bytes from which on writing is paused; None: everything is taken at once.
    """

    def __init__(self, *, full_above: int | None = None, half_closes: bool = True) -> None:
        self.writes: list[bytes] = []
        self.protocol: Any = None
        self.is_reading = True
        self.is_closing = Flag(False)
        self.was_aborted = False
        self.is_lost = False
        self.sent_eof = False
        self.pauses = 0
        self._half_closes = half_closes
        self._full_above = full_above
        self._unsent = 0
        self._is_full = False
        self._held: list[bytes] = []

    def connect(self, protocol: Any) -> FakeTransport:
        self.protocol = protocol
        protocol.connection_made(self)
        return self

    @property
    def data(self) -> bytes:
        """Everything written so far."""
        return b"".join(self.writes)

    def take(self) -> bytes:
        """What was written since it was last asked."""
        data, self.writes = self.data, []
        return data

    # ---- what the peer does

    def deliver(self, *pieces: bytes) -> None:
        """Bytes of the peer, each piece a read of its own; held back while reading is paused."""
        for piece in pieces:
            if not self.is_reading:
                self._held.append(piece)
            elif not self.is_lost and not self.is_closing:
                self._hand_over(piece)

    def release(self) -> None:
        """Hand over what was held back, as the loop would in its next turn."""
        while self._held and self.is_reading and not self.is_lost and not self.is_closing:
            self._hand_over(self._held.pop(0))

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def _hand_over(self, piece: bytes) -> None:
        while piece:
            if not self.is_reading:
                self._held.insert(0, piece)
                return
            get_buffer = getattr(self.protocol, "get_buffer", None)
            if get_buffer is None:
                self.protocol.data_received(piece)
                return
            buffer = get_buffer(-1)
            size = min(len(buffer), len(piece))
            buffer[:size] = piece[:size]
            del buffer
            self.protocol.buffer_updated(size)
            piece = piece[size:]

    def end(self) -> None:
        """The peer has sent its last byte."""
        if not self.is_lost and not self.protocol.eof_received():
            self.close()
            self.settle()

    def lose(self, error: BaseException | None = None) -> None:
        """The connection is gone."""
        if not self.is_lost:
            self.is_lost = True
            self.protocol.connection_lost(error)

    def reset(self) -> None:
        self.lose(ConnectionResetError())

    def settle(self) -> None:
        """What the loop does in the turn after a close or an abort."""
        if self.is_closing:
            self.lose()

    def drain(self, size: int | None = None) -> None:
        """The peer takes bytes that were written."""
        self._unsent = 0 if size is None else max(0, self._unsent - size)
        if self._is_full and self._unsent == 0:
            self._is_full = False
            self.protocol.resume_writing()

    # ---- what the protocol does

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes) and data
        assert not self.sent_eof, "written after the end"
        if self.is_closing or self.is_lost:
            return
        self.writes.append(data)
        if self._full_above is None:
            return
        self._unsent += len(data)
        if self._unsent > self._full_above and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def writelines(self, lines: Iterable[bytes]) -> None:
        self.write(b"".join(lines))

    def pause_reading(self) -> None:
        self.is_reading = False
        self.pauses += 1

    def resume_reading(self) -> None:
        self.is_reading = True

    def can_write_eof(self) -> bool:
        return self._half_closes

    def write_eof(self) -> None:
        assert not self.sent_eof
        self.sent_eof = True

    def close(self) -> None:
        self.is_closing = Flag(True)

    def abort(self) -> None:
        self.is_closing = self.was_aborted = Flag(True)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class _Timer:
    def __init__(self, delay: float, callback: Callable[[], object]) -> None:
        self.delay = delay
        self.callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class Timers:
    """Stands in for the loop towards the compiled modules: timers fire when a test says so, callbacks of
    the next turn run in `turn`."""

    def __init__(self) -> None:
        self._timers: list[_Timer] = []
        self._soon: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.failures: list[dict[str, Any]] = []

    def call_later(self, delay: float, callback: Callable[[], object]) -> _Timer:
        timer = _Timer(delay, callback)
        self._timers.append(timer)
        return timer

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._soon.append((callback, args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def turn(self) -> None:
        """Run what waits for the next turn, and what that makes wait."""
        while self._soon:
            callback, args = self._soon.pop(0)
            callback(*args)

    @property
    def pending(self) -> list[_Timer]:
        return [timer for timer in self._timers if not timer.is_over]

    def fire(self, owner: Any = None) -> int:
        """Fire the timers of `owner` (None: of anybody but the deadlines); how many there were."""
        due = self.of(owner)
        for timer in due:
            timer.is_over = True
            timer.callback()
        self._timers = self.pending
        return len(due)

    def of(self, owner: Any = None) -> list[_Timer]:
        owners = [(timer, getattr(timer.callback, "__self__", None)) for timer in self.pending]
        if owner is None:
            return [timer for timer, found in owners if not isinstance(found, Deadlines)]
        return [timer for timer, found in owners if found is owner]


NAMES = ("header_read", "idle", "body_stall", "linger", "request", "first_byte", "pool_idle")


def make_limits(loop: Any, **changes: Any) -> Limits:
    """Deadlines that have passed as soon as their timer is fired."""
    options: dict[str, Any] = {f"{name}_s": 1e-9 for name in NAMES}
    options |= {
        "keepalive_s": 0.0,
        "between_s": 0.0,
        "max_payload_bytes": 1 << 20,
        "broken_frame": BROKEN,
        "timeout_frame": TIMED_OUT,
    }
    return Limits(loop, **(options | changes))


def pass_a_moment() -> None:
    """Until the monotonic clock has moved, so that what was due at once is overdue."""
    start = time.monotonic_ns()
    while time.monotonic_ns() < start + 1000:
        pass


def armed(limits: Limits) -> dict[str, int]:
    """The deadlines that something waits in."""
    counts = {name: getattr(limits, name).armed for name in NAMES}
    return {name: count for name, count in counts.items() if count}


def splits(data: bytes) -> list[tuple[bytes, ...]]:
    """The bytes in one piece, cut in two at every place, and one by one."""
    whole = [(data,)]
    halves = [(data[:at], data[at:]) for at in range(1, len(data))]
    single = [tuple(data[at : at + 1] for at in range(len(data)))]
    return whole + halves + single
