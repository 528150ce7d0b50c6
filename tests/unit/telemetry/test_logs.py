import io
import json
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from smg.config.model import Telemetry
from smg.telemetry import logs


class Gate(io.StringIO):
    """A stream that stands still until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.open = threading.Event()

    def write(self, text: str) -> int:
        self.reached.set()
        assert self.open.wait(10)
        return super().write(text)


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def written(telemetry: Telemetry, *calls) -> list[str]:
    stream = io.StringIO()
    stop = logs.setup(telemetry, stream)
    for call in calls:
        call()
    stop()
    return stream.getvalue().splitlines()


def test_json_lines() -> None:
    log = logs.get("smg.request")
    (line,) = written(
        Telemetry(log_json=True),
        lambda: log.info(
            "finished processing request", status=200, latency_us=12.5, worker=Path("x"), level=1
        ),
    )
    entry = json.loads(line)
    moment = datetime.fromisoformat(entry.pop("timestamp"))
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60
    assert list(entry.items()) == [
        ("level", "INFO"),
        ("message", "finished processing request"),
        ("target", "smg.request"),
        ("status", 200),
        ("latency_us", 12.5),
        ("worker", "x"),
        ("level_", 1),
    ]


def test_console_lines_cannot_be_forged() -> None:
    log = logs.get("workers")
    (line,) = written(
        Telemetry(), lambda: log.warn("worker is up", url="http://a", note="x y\n2026 ERROR", empty="", n=1)
    )
    assert line.split(" ", 1)[1] == (
        r'WARN  smg.workers worker is up url=http://a note="x y\n2026 ERROR" empty="" n=1'
    )


def test_levels() -> None:
    log = logs.get("smg.x")
    calls = [lambda: log.debug("d"), lambda: log.info("i"), lambda: log.warn("w"), lambda: log.error("e")]
    for level, count in (("debug", 4), ("info", 3), ("warn", 2), ("error", 1)):
        assert len(written(Telemetry(log_level=level), *calls)) == count


def test_other_libraries_are_heard_from_warning_up() -> None:
    other = logging.getLogger("aiohttp.server")
    lines = written(
        Telemetry(log_level="debug"),
        lambda: other.info("quiet"),
        lambda: other.warning("loud %s\n%d", "a", 1),
    )
    assert len(lines) == 1
    assert lines[0].endswith(r'WARN  aiohttp.server "loud a\n1"')


def test_tracebacks_are_kept() -> None:
    def fail() -> None:
        try:
            raise ValueError("boom")
        except ValueError as error:
            logs.get("smg.x").exception("failed", error, model="m")

    (line,) = written(Telemetry(log_json=True), fail)
    entry = json.loads(line)
    assert entry["model"] == "m"
    assert entry["traceback"].endswith("ValueError: boom")
    lines = written(Telemetry(), fail)
    assert lines[0].endswith("failed model=m")
    assert lines[-1] == "ValueError: boom"


@pytest.mark.parametrize("as_json", [True, False])
def test_nothing_a_field_holds_stops_the_writer(as_json: bool) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError

    log = logs.get("smg.x")
    lines = written(
        Telemetry(log_json=as_json),
        lambda: log.info("surrogate", text="\ud800", more="ä"),
        lambda: log.info("huge", number=10**400, nan=float("nan")),
        lambda: log.info("bad", value=Bad()),
        lambda: log.info("key", **{"\ud800": 1}),
        lambda: log.info("last"),
    )
    assert len(lines) == 5
    assert "last" in lines[-1]
    assert "cannot be formatted: RuntimeError" in lines[2]


def test_a_full_queue_drops_and_counts_without_waiting() -> None:
    gate = Gate()
    log = logs.get("smg.x")
    stop = logs.setup(Telemetry(log_json=True), gate, capacity=10)
    log.info("first")
    assert gate.reached.wait(10)
    for number in range(15):
        log.info("more", number=number)
    assert stop.dropped == 5
    gate.open.set()
    stop()
    entries = [json.loads(line) for line in gate.getvalue().splitlines()]
    assert [entry["number"] for entry in entries if entry["message"] == "more"] == list(range(10))
    assert [entry["records"] for entry in entries if entry["message"] == "log records lost"] == [5]


def test_a_broken_stream_stops_neither_the_file_nor_the_program(tmp_path: Path) -> None:
    stop = logs.setup(Telemetry(log_dir=str(tmp_path / "logs")), Broken())
    logs.get("smg.x").info("kept")
    stop()
    (file,) = (tmp_path / "logs").iterdir()
    assert file.name in {f"smg.{datetime.now(UTC):%Y-%m-%d}"} or file.name.startswith("smg.")
    assert "kept" in file.read_text()
    assert stop.dropped == 1


def test_a_new_day_begins_a_new_file(tmp_path: Path) -> None:
    def on(day: str) -> None:
        record = logging.LogRecord("smg.x", logging.INFO, "", 0, day, None, None)
        record.created = datetime.fromisoformat(day + "+00:00").timestamp()
        logging.getLogger("smg.x").handle(record)

    days = ["2026-01-31T23:59:59.999999", "2026-02-01T00:00:00", "2026-02-01T23:00:00"]
    written(Telemetry(log_dir=str(tmp_path)), *(lambda day=day: on(day) for day in days))
    assert (tmp_path / "smg.2026-01-31").read_text().count("\n") == 1
    assert (tmp_path / "smg.2026-02-01").read_text().count("\n") == 2


def test_the_directory_must_be_writable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = threading.active_count()
    with pytest.raises(OSError, match="file"):
        logs.setup(Telemetry(log_dir=str(tmp_path / "file")))
    assert threading.active_count() == before


def test_stopping_restores_logging_and_may_be_repeated() -> None:
    own, others = logging.getLogger("smg"), logging.getLogger()
    before = (own.level, own.propagate, own.handlers[:], others.level, others.handlers[:])
    stop = logs.setup(Telemetry(), io.StringIO())
    stop()
    stop()
    assert (own.level, own.propagate, own.handlers[:], others.level, others.handlers[:]) == before


def test_fields_given_as_extra_are_written_too() -> None:
    (line,) = written(
        Telemetry(log_json=True),
        lambda: logging.getLogger("smg.x").info("m", extra={"fields": {"a": 1}}),
    )
    assert json.loads(line)["a"] == 1


def test_names() -> None:
    records: list[str] = []
    lines = written(
        Telemetry(log_json=True),
        lambda: logs.get("smg.server.lifecycle").info("m"),
        lambda: logs.get("request").info("m"),
        lambda: logs.get("smgx").info("m"),
    )
    records = [json.loads(line)["target"] for line in lines]
    assert records == ["smg.server.lifecycle", "smg.request", "smg.smgx"]
