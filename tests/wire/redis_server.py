"""A real Redis on a free port, which tests start, kill, stop and start again."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

from tests.conftest import find_free_port
from tests.waiting import until

# `.ci/run` installs it; without it the tests of what gateways share are not collected.
REDIS = os.environ.get("SMG_TEST_REDIS") or shutil.which("redis-server") or ""


class RedisServer:
    """Keeps nothing on the disk: started anew it is empty."""

    def __init__(self, folder: Path, password: str = "") -> None:
        assert REDIS, "there is no redis-server: install it or name one with SMG_TEST_REDIS"
        self.port = find_free_port()
        self.password = password
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}/0"

    async def start(self) -> RedisServer:
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        words += ["--dir", str(self._folder), "--requirepass", self.password] if self.password else []
        self._process = await asyncio.create_subprocess_exec(
            REDIS, *words, cwd=self._folder, stdout=asyncio.subprocess.DEVNULL
        )
        await until(self._answers, "Redis answers")
        return self

    async def kill(self) -> None:
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It keeps its connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.write(b"PING\r\n")
        answer = await reader.readline()
        writer.close()
        return answer.startswith((b"+PONG", b"-NOAUTH"))


async def went(link: object, up: bool) -> None:
    """Wait until a link has noticed that Redis is there, or away."""
    await until(lambda: link.is_up is up, f"the link is {'up' if up else 'down'}")  # type: ignore[attr-defined]
