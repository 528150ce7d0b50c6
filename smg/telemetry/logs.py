"""Logging: fixed messages with fields beside them, written by one thread behind a bounded queue.

Logging never waits: a record that finds the queue full is counted and dropped, and the count is
logged once there is room. `Log` is how smg's own modules write; records of other libraries take the
same way from `warning` up.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TextIO

import msgspec

from smg.config.model import Telemetry

QUEUE_RECORDS = 8192
_BATCH_RECORDS = 256
# The writer sleeps this long after the first record of a batch: waking it per record costs more than a line.
_GATHER_S = 0.02
_STOP_WAIT_S = 5.0
_ROOT = "smg"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_LEVEL_NAMES = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "ERROR",
}
# Visible ASCII without the quotation mark and the equals sign.
_PLAIN = re.compile(r"[!#-<>-~]+")
_CREDENTIALS = re.compile(r"(?<=://)[^\s/\"\\]+(?=@)")
_BEARER = re.compile(r"(bearer +)[^\s\"\\]+", re.IGNORECASE)
_OWN_MEMBERS = frozenset({"timestamp", "level", "message", "target", "traceback"})


class Log:
    """A logger whose methods take a fixed message and the fields beside it.

    A disabled level costs about 0.1 µs.
    """

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    @property
    def shows_info(self) -> bool:
        """Is INFO written? Saves hot paths the making of the fields."""
        return self._logger.isEnabledFor(logging.INFO)

    @property
    def shows_debug(self) -> bool:
        """Is DEBUG written?"""
        return self._logger.isEnabledFor(logging.DEBUG)

    def always_shows_info(self) -> None:
        self._logger.setLevel(logging.INFO)

    def debug(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, message, fields)

    def warn(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, message, fields)

    def exception(self, message: str, error: BaseException, /, **fields: object) -> None:
        """An error with the traceback of `error`."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, message, fields, error)

    def _write(
        self, level: int, message: str, fields: Mapping[str, object], error: BaseException | None = None
    ) -> None:
        # Made by hand: looking for the caller's file and line would cost more than all the rest.
        info = (type(error), error, error.__traceback__) if error is not None else None
        record = logging.LogRecord(self._logger.name, level, "", 0, message, None, info)
        record.fields = fields
        self._logger.handle(record)


def get(name: str) -> Log:
    """The logger of a module (`__name__`) or of a topic, which gets `smg.` in front."""
    return Log(logging.getLogger(name if name.split(".")[0] == _ROOT else f"{_ROOT}.{name}"))


def get_unfiltered(name: str) -> Log:
    """A logger whose INFO lines are written at any `--log-level`, such as an audit trail."""
    log = get(name)
    log.always_shows_info()
    return log


class Writer:
    """What `setup` started. Calling it ends logging: the queue is written out and the thread ends."""

    def __init__(self, handler: _Enqueue, thread: threading.Thread, undo: Callable[[], None]) -> None:
        self._handler = handler
        self._thread = thread
        self._undo = undo

    @property
    def dropped(self) -> int:
        """Records lost because the queue was full."""
        return self._handler.dropped

    def __call__(self) -> None:
        if not self._handler.stopping.is_set():
            self._undo()
            self._handler.stopping.set()
            self._handler.records.put(None)
            # If the disk or terminal hangs, the thread is a daemon and dies with the process.
            self._thread.join(_STOP_WAIT_S)


def setup(telemetry: Telemetry, stream: TextIO | None = None, capacity: int = QUEUE_RECORDS) -> Writer:
    """Starts logging to `stream` (stderr) and, with `log_dir`, to a file a day. `OSError` if that fails.

    The answer is called to stop.
    """
    sinks: list[_Sink] = [_Stream(stream or sys.stderr)]
    if telemetry.log_dir is not None:
        sinks.append(_DailyFile(Path(telemetry.log_dir)))
    handler = _Enqueue(capacity)
    format_line = json_line if telemetry.log_json else console_line
    thread = threading.Thread(
        target=_write_all, args=(handler, format_line, sinks), name="smg-logs", daemon=True
    )
    undo = _attach(handler, _LEVELS[telemetry.log_level])
    thread.start()
    return Writer(handler, thread, undo)


def _attach(handler: logging.Handler, level: int) -> Callable[[], None]:
    own, others = logging.getLogger(_ROOT), logging.getLogger()
    before = own.level, own.propagate, others.level
    own.setLevel(level)
    own.propagate = False
    others.setLevel(max(level, logging.WARNING))
    own.addHandler(handler)
    others.addHandler(handler)

    def undo() -> None:
        own.removeHandler(handler)
        others.removeHandler(handler)
        own.setLevel(before[0])
        own.propagate = before[1]
        others.setLevel(before[2])

    return undo


class _Enqueue(logging.Handler):
    """The end of logging in the caller's thread. None in `records` is the end.

    A plain handler around `SimpleQueue`, which is written in C: `QueueHandler` with a `Queue` takes
    twice the time. The bound may be passed by one record per thread that logs at this very moment.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.records: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self.capacity = capacity
        self.dropped = 0
        self.stopping = threading.Event()

    def handle(self, record: logging.LogRecord) -> bool:
        # Without the lock around it: the queue is safe by itself.
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        if self.records.qsize() >= self.capacity:
            self.dropped += 1
            return
        # Arguments and tracebacks may change or hold much alive, so they become text here.
        if record.args:
            record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            record.exc_info = None
        self.records.put(record)


class _Sink(Protocol):
    def write(self, lines: list[tuple[float, str]]) -> None:
        """Writes lines, each with the time it belongs to (s since the epoch)."""

    def close(self) -> None: ...


def _write_all(
    handler: _Enqueue, format_line: Callable[[logging.LogRecord], str], sinks: list[_Sink]
) -> None:
    reported = 0
    running = True
    while running:
        batch = _take_batch(handler)
        running = batch[-1] is not None
        records = [record for record in batch if record is not None]
        if handler.dropped != reported:
            records.append(_loss(handler.dropped - reported))
            reported = handler.dropped
        lines = [(record.created, _formatted(record, format_line)) for record in records]
        for sink in sinks:
            try:
                sink.write(lines)
            except (OSError, ValueError):
                # A full disk or a closed terminal must end neither this thread nor the other sink.
                handler.dropped += len(lines)
                reported = handler.dropped
    for sink in sinks:
        with contextlib.suppress(OSError):
            sink.close()


def _take_batch(handler: _Enqueue) -> list[logging.LogRecord | None]:
    """At least one record, at most a batch; None stands last and means the end."""
    batch = [handler.records.get()]
    if handler.records.qsize() < _BATCH_RECORDS:
        handler.stopping.wait(_GATHER_S)
    while batch[-1] is not None and len(batch) < _BATCH_RECORDS:
        try:
            batch.append(handler.records.get_nowait())
        except queue.Empty:
            break
    return batch


def _loss(count: int) -> logging.LogRecord:
    record = logging.LogRecord("smg.telemetry.logs", logging.WARNING, "", 0, "log records lost", None, None)
    record.fields = {"records": count}
    return record


def _formatted(record: logging.LogRecord, format_line: Callable[[logging.LogRecord], str]) -> str:
    try:
        return _concealed(format_line(record))
    except Exception as problem:
        # A field with a broken __str__ must not end this thread.
        return f"log record of {record.name} cannot be formatted: {type(problem).__name__}"


def _concealed(line: str) -> str:
    """The line without what must never be in one, should somebody have put it there: credentials in URLs,
    bearer tokens."""
    if "@" in line:
        line = _CREDENTIALS.sub("***", line)
    if "earer " in line or "EARER " in line:
        line = _BEARER.sub(r"\1***", line)
    return line


class _Stream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, lines: list[tuple[float, str]]) -> None:
        self._stream.write("".join(line + "\n" for _, line in lines))
        self._stream.flush()

    def close(self) -> None:
        """The stream is not ours."""


class _DailyFile:
    """`smg.YYYY-MM-DD`, days as in UTC; a new file when a record of another day comes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._day = _day_of(datetime.now(UTC).timestamp())
        self._file = self._open()

    def write(self, lines: list[tuple[float, str]]) -> None:
        for created, line in lines:
            if (day := _day_of(created)) != self._day:
                self._file.close()
                self._day = day
            if self._file.closed:
                self._file = self._open()
            self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _open(self) -> TextIO:
        path = self._folder / f"smg.{datetime.fromtimestamp(self._day * 86400, UTC):%Y-%m-%d}"
        return path.open("a", encoding="utf-8")


def _day_of(seconds: float) -> int:
    return int(seconds // 86400)


def json_line(record: logging.LogRecord) -> str:
    """One JSON object: timestamp, level, message, target, then the fields; own names get a `_` behind."""
    line: dict[str, object] = {
        "timestamp": _timestamp(record),
        "level": _level(record),
        "message": record.getMessage(),
        "target": record.name,
    }
    for name, value in _fields(record).items():
        line[f"{name}_" if name in _OWN_MEMBERS else name] = value
    if record.exc_text:
        line["traceback"] = record.exc_text
    try:
        return msgspec.json.encode(line, enc_hook=str).decode()
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        # Lone surrogates, huge integers, odd keys: as text, with what UTF-8 cannot hold replaced.
        return msgspec.json.encode({_utf8(name): _utf8(value) for name, value in line.items()}).decode()


def console_line(record: logging.LogRecord) -> str:
    """`time LEVEL target message name=value …`; a field or message can never begin a line of its own."""
    fields = "".join(f" {name}={_console_value(value)}" for name, value in _fields(record).items())
    message = record.getMessage()
    if not message.isprintable():
        message = msgspec.json.encode(_utf8(message)).decode()
    line = f"{_timestamp(record)} {_level(record):5} {record.name} {message}{fields}"
    return f"{line}\n{_utf8(record.exc_text)}" if record.exc_text else line


def _console_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(_utf8(text)).decode()


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return fields


def _timestamp(record: logging.LogRecord) -> str:
    microseconds = int(record.created * 1_000_000)
    return f"{_second(microseconds // 1_000_000)}.{microseconds % 1_000_000:06}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def _level(record: logging.LogRecord) -> str:
    return _LEVEL_NAMES.get(record.levelno, record.levelname)


def _utf8(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode()
