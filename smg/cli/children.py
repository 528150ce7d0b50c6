"""Child processes that live and die together with this one.

Every child has a session of its own, so a Ctrl-C on the terminal reaches only the parent, which then
stops the children in its order. If the parent is killed, the kernel ends them (Linux).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from smg.cli.program import environment_for_children

_PR_SET_PDEATHSIG = 1
_MAX_LINE_BYTES = 65536
_Result = TypeVar("_Result")


class Failed(Exception):
    """Something that ends the whole; the text is a sentence for the user."""


class Stopped(Exception):
    """A signal asked to end."""


class Child:
    """A running process and what the user calls it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.is_expected_to_end = False

    async def first_line(self) -> str:
        """The first line of its output; the rest is copied to our own. Empty when it ended without one."""
        stdout = self.process.stdout
        assert stdout is not None
        return (await stdout.readline()).decode("utf-8", "replace").rstrip("\n")


class Children:
    """Starts children, notices the first unexpected end or signal, and stops them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Exception] = self._loop.create_future()
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def watch_signals(self) -> None:
        """The first SIGINT or SIGTERM asks to end, the second to end at once."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._signalled)

    async def start(self, name: str, command: Sequence[str], *, reads_output: bool = False) -> Child:
        """Start a child. Its errors, and its output unless it is read, go where ours go."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if reads_output else None,
                limit=_MAX_LINE_BYTES,
                start_new_session=True,
                env=environment_for_children(),
                preexec_fn=_tether(),
            )
        except OSError as problem:
            raise Failed(f"{name} cannot be started: {command[0]}: {problem.strerror}") from None
        child = Child(name, process)
        self._keep(self._watch(child))
        return child

    async def until(
        self, step: Coroutine[Any, Any, _Result], timeout_secs: float | None, late: str
    ) -> _Result:
        """The result of a step, unless a child or a signal ends it or it takes too long."""
        task = asyncio.ensure_future(step)
        both: set[asyncio.Future[Any]] = {task, self._ended}
        try:
            await asyncio.wait(both, timeout=timeout_secs, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                raise self._ended.result()
            if not task.done():
                raise Failed(late)
            return task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def until_end(self) -> None:
        """Wait for the end; raises `Stopped` or `Failed`."""
        raise await asyncio.shield(self._ended)

    async def stop(self, children: Sequence[Child], grace_secs: float) -> None:
        """End some children together: SIGTERM, then after the grace SIGKILL for all they started."""
        for child in children:
            child.is_expected_to_end = True
            with contextlib.suppress(ProcessLookupError):
                child.process.terminate()
        await asyncio.gather(*(self._stop(child, grace_secs) for child in children))

    def pass_on_output(self, child: Child) -> None:
        """Copy what a child still prints to our own error output."""
        self._keep(_copy(child))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop(self, child: Child, grace_secs: float) -> None:
        ended = asyncio.ensure_future(child.process.wait())
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({ended, hurry}, timeout=grace_secs, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
        await ended

    async def _watch(self, child: Child) -> None:
        status = await child.process.wait()
        if child.is_expected_to_end or self._ended.done():
            return
        how = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
        self._ended.set_result(Failed(f"{child.name} {how}"))

    def _signalled(self) -> None:
        if self._ended.done():
            self._hurry.set()
        else:
            self._ended.set_result(Stopped())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def _copy(child: Child) -> None:
    stdout = child.process.stdout
    assert stdout is not None
    while data := await stdout.read(_MAX_LINE_BYTES):
        sys.stderr.write(data.decode("utf-8", "replace"))
        sys.stderr.flush()


def _tether() -> Callable[[], None] | None:
    """What a child does before its program starts, so that it ends with its parent."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return tie
