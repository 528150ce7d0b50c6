"""The connection to the Redis that gateways share: many small questions, never waited for long.

Questions of one moment go together in one round trip. Who asks gets an answer within `BOUND_S` or a
`LinkError`, and decides alone. When Redis fails, the link is down until it has answered again in the
background: until then nobody asks and nobody waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from smg.telemetry import logs

log = logs.get(__name__)

BOUND_S = 0.05
CONNECT_S = 1.0
PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
SLOW_IN_A_ROW = 3
MAX_WAITING = 8192
# What nobody waits for leaves this much of the queue to those who wait.
MAX_TOLD = 4096
BATCH = 256

Word = str | bytes | int | float
Answer = Callable[[Any], None]


class LinkError(Exception):
    """No answer; decide without."""


class Script:
    """A Lua script; `keys` of a call come before its arguments."""

    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        from hashlib import sha1

        self.text = text
        # How Redis names scripts; nothing secret.
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()


_PROBE = Script("return redis.call('SET', KEYS[1], '1', 'PX', '1000')")
_PROBED = "smg:probe"


class Connection(Protocol):
    """What is needed of a Redis client, see client.py."""

    async def run(self, calls: Sequence[tuple[Script, Sequence[str], Sequence[Word]]]) -> list[Any]: ...

    async def close(self) -> None: ...


class _Question:
    __slots__ = ("arguments", "future", "keys", "on_answer", "script")

    def __init__(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[Word],
        future: asyncio.Future[Any] | None,
        on_answer: Answer | None,
    ) -> None:
        self.script = script
        self.keys = keys
        self.arguments = arguments
        self.future = future
        self.on_answer = on_answer

    def answer(self, value: Any) -> None:
        future = self.future
        if future is not None and not future.done():
            future.set_result(value)
        elif self.on_answer is not None and (future is None or future.cancelled()):
            self.on_answer(value)

    def fail(self) -> bool:
        """False: that it has no answer is known already."""
        if self.future is None:
            return True
        if self.future.done():
            return False
        self.future.set_exception(LinkError())
        return True


class Link:
    """`connect` makes a client, cheaply and without asking Redis. `answered`, `failed` and `dropped` count
    questions: the last found the queue full."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        shown: str,
        bound_s: float = BOUND_S,
        pause_s: float = PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_up = False
        self.answered = 0
        self.failed = 0
        self.dropped = 0
        self._connect = connect
        self._shown = shown
        self.bound_s = bound_s
        self._pause_s = pause_s
        self._clock = clock
        self._queue: deque[_Question] = deque()
        self._news = asyncio.Event()
        self._connection: Connection | None = None
        self._was_told_down = False

    # ---- for those who ask

    def ask(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Word], late: Answer
    ) -> asyncio.Future[Any] | None:
        """The answer to come, or None when nobody is there to ask. The answer to who has cancelled the future
        goes to `late`."""
        if not self.is_up:
            return None
        if len(self._queue) >= MAX_WAITING:
            self.dropped += 1
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        question = _Question(script, keys, arguments, future, late)
        timer = loop.call_later(self.bound_s, self._fail, [question])
        future.add_done_callback(lambda done: timer.cancel())
        self._put(question)
        return future

    def tell(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Word], on_answer: Answer | None = None
    ) -> None:
        """Let Redis know, without waiting; lost when it is away or behind."""
        if not self.is_up:
            return
        if len(self._queue) >= MAX_TOLD:
            self.dropped += 1
            return
        self._put(_Question(script, keys, arguments, None, on_answer))

    def _put(self, question: _Question) -> None:
        self._queue.append(question)
        self._news.set()

    # ---- the background

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        pause_s = self._pause_s
        try:
            while True:
                try:
                    await self._open()
                    pause_s = self._pause_s
                    await self._work()
                except Exception as problem:
                    # Whatever Redis or its library comes up with, the gateway goes on alone.
                    self._down(problem)
                await self._drop_connection()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        finally:
            self.is_up = False
            self._fail_all()
            await self._drop_connection()

    async def _open(self) -> None:
        self._connection = self._connect()
        async with asyncio.timeout(CONNECT_S):
            # A Redis that answers but takes no scripts, or nothing more at all, is none.
            await self._send([_Question(_PROBE, [_PROBED], [], None, None)])
        self.is_up = True
        if self._was_told_down:
            log.info("shared state is back", redis=self._shown)
        else:
            log.info("state is shared", redis=self._shown)
        self._was_told_down = False

    async def _work(self) -> None:
        """Ends only by raising."""
        slow = 0
        while True:
            if not self._queue:
                self._news.clear()
                await self._news.wait()
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            try:
                async with asyncio.timeout(self.bound_s):
                    answers = await self._send(batch)
            except BaseException as problem:
                self._fail(batch)
                if not isinstance(problem, TimeoutError):
                    raise
                slow += 1
                if slow >= SLOW_IN_A_ROW:
                    raise
                # A late answer must not be taken for that of the next question.
                await self._drop_connection()
                self._connection = self._connect()
                continue
            slow = 0
            for question, answer in zip(batch, answers, strict=True):
                question.answer(answer)
            self.answered += len(batch)

    async def _send(self, batch: list[_Question]) -> list[Any]:
        assert self._connection is not None
        answers = await self._connection.run([(one.script, one.keys, one.arguments) for one in batch])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _down(self, problem: Exception) -> None:
        self.is_up = False
        self._fail_all()
        if not self._was_told_down:
            log.warn(
                "shared state is away, this gateway goes on alone", redis=self._shown, problem=_words(problem)
            )
        self._was_told_down = True

    def _fail_all(self) -> None:
        self._fail(self._queue)
        self._queue.clear()

    def _fail(self, questions: Iterable[_Question]) -> None:
        self.failed += sum(question.fail() for question in questions)

    async def _drop_connection(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            async with asyncio.timeout(CONNECT_S):
                await connection.close()
        except Exception as problem:
            log.debug("closing the connection to Redis failed", problem=_words(problem))


def _words(problem: Exception) -> str:
    """The kind of a failure; texts of the library may show the URL with its password."""
    return "no answer in time" if isinstance(problem, TimeoutError) else type(problem).__name__


def shown(url: str) -> str:
    """A Redis URL for the log: where it is, nothing else."""
    try:
        parts = urlsplit(url)
        return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"
    except ValueError:
        return "?"
