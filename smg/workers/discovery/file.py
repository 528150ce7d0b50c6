"""Workers listed in a JSON file, which is read again when it changes and now and then.

A file that breaks one rule is refused whole, and the last good list stays; so it does when the file is gone.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from smg.config.specs import WorkerUrl
from smg.telemetry import logs
from smg.workers.discovery.reconcile import Reconciler, labelled
from smg.workers.spec import WorkerSpec, WorkerType
from smg.workers.worker import ModelCard

log = logs.get(__name__)

SOURCE = "file"
REGULAR = frozenset({"regular"})
PAIRED = frozenset({"regular", "prefill", "decode"})
MAX_FILE_BYTES = 8 << 20
MAX_ENTRIES = 4096
LOOK_S = 1.0

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
BootstrapPort = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Signature = tuple[int, int, int, int]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One worker of the file."""

    url: Text
    id: Text | None = None
    worker_type: WorkerType | None = None
    bootstrap_port: BootstrapPort | None = None
    model_id: Text | None = None
    kv_connector: Text | None = None
    kv_role: Text | None = None
    kv_engine_id: Text | None = None


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    version: Literal[1]
    workers: Annotated[list[Entry], msgspec.Meta(max_length=MAX_ENTRIES)]


class SnapshotError(Exception):
    """Why a file is no list of workers; `reason` is a label of the metrics."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class FileSource:
    """`worker_types`: those this gateway takes. `interval_s`: how often an unchanged file is read."""

    def __init__(
        self,
        path: str,
        reconciler: Reconciler,
        interval_s: float,
        worker_types: Collection[str] = REGULAR,
        look_s: float = LOOK_S,
    ) -> None:
        self._path = Path(path)
        self._reconciler = reconciler
        self._interval_s = interval_s
        self._worker_types = worker_types
        self._look_s = min(look_s, interval_s)
        self._seen: Signature | None = None
        self._listed: dict[str, WorkerSpec] | None = None
        self._problem = ""

    async def run(self) -> None:
        """Follow the file until cancelled."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            try:
                if await self._changed() or clock() >= due:
                    due = clock() + self._interval_s
                    await self.look()
            except Exception as bug:
                log.exception("discovery from a file failed", bug)
            await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Read the file and make the workers those it lists."""
        try:
            content = await asyncio.to_thread(_read, self._path)
            self._listed = read_listing(content, self._worker_types)
        except SnapshotError as error:
            self._reconciler.snapshot_errors[error.reason] += 1
            self._note(str(error))
        else:
            self._note("")
        if self._listed is not None:
            self._reconciler.sync(self._listed)

    async def _changed(self) -> bool:
        try:
            found = await asyncio.to_thread(os.stat, self._path)
        except OSError:
            # Tried at the next interval, and as soon as it is there.
            return False
        before = self._seen
        self._seen = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)
        return self._seen != before

    def _note(self, problem: str) -> None:
        """One line when a problem comes or another takes its place, one when it is over."""
        if problem and problem != self._problem:
            effect = "the last good list stays" if self._listed is not None else "no workers yet"
            log.warn("discovery file refused", file=str(self._path), problem=problem, effect=effect)
        elif self._problem and not problem:
            log.info("discovery file is good again", file=str(self._path))
        self._problem = problem


def _read(path: Path) -> bytes:
    try:
        # Anything but a file, a FIFO above all, could keep us waiting for ever.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SnapshotError("unreadable", "it is no regular file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise SnapshotError("missing", "there is no such file") from None
    except OSError as error:
        raise SnapshotError("unreadable", f"it cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise SnapshotError("invalid", f"it is longer than {MAX_FILE_BYTES} bytes")
    return content


def read_listing(content: bytes, worker_types: Collection[str] = REGULAR) -> dict[str, WorkerSpec]:
    """Specifications by canonical URL. Raises `SnapshotError`."""
    try:
        listing = msgspec.convert(_strict_json(content), Listing)
    except (ValueError, RecursionError) as error:
        # MsgspecError and UnicodeDecodeError are ValueErrors.
        raise SnapshotError("invalid", str(error) or "nested too deeply") from None
    specs: dict[str, WorkerSpec] = {}
    names: set[str] = set()
    for number, entry in enumerate(listing.workers):
        url, spec = _spec(number, entry, worker_types)
        identity = entry.id or url
        if url in specs:
            raise SnapshotError("invalid", f"workers[{number}] has the same endpoint as another entry")
        if identity in names:
            raise SnapshotError("invalid", f"workers[{number}] has the same id as another entry")
        names.add(identity)
        specs[url] = spec
    return specs


def _spec(number: int, entry: Entry, worker_types: Collection[str]) -> tuple[str, WorkerSpec]:
    where = f"workers[{number}]"
    try:
        text = entry.url.strip()
        url = str(WorkerUrl.parse(text if "://" in text else f"http://{text}"))
    except ValueError as error:
        raise SnapshotError("invalid", f"{where}.url: {error}") from None
    kind = entry.worker_type or "regular"
    if kind not in worker_types:
        raise SnapshotError("invalid", f"{where}: this gateway takes no {kind} workers")
    if entry.bootstrap_port is not None and kind != "prefill":
        raise SnapshotError("invalid", f"{where}: only a prefill worker has a bootstrap_port")
    return url, WorkerSpec(
        url=url,
        models=(ModelCard(entry.model_id),) if entry.model_id is not None else None,
        worker_type=kind,
        labels=labelled(SOURCE, entry.id or url, entry.model_id),
        bootstrap_port=entry.bootstrap_port,
        kv_connector=entry.kv_connector,
        kv_role=entry.kv_role,
        kv_engine_id=entry.kv_engine_id,
    )


def _strict_json(content: bytes) -> Any:
    """JSON without the duplicate members and constants that Python's decoder lets pass."""
    import json

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(members)
        if len(made) != len(members):
            raise ValueError("a member is given twice")
        return made

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.loads(content.decode(), object_pairs_hook=pairs, parse_constant=constant)
