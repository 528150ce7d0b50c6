"""A headless Chromium that is asked by the DevTools protocol what a page shows."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import until

BOUND_S = 40.0
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--remote-debugging-port=0", "--window-size=1280,800",
)  # fmt: skip


class Page:
    """One tab. `problems`: what its console was told of errors, refusals of the policy among them."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.problems: list[str] = []

    async def ask(self, method: str, **parameters: Any) -> Any:
        """One command and its result; events that come meanwhile are looked at."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads(await self._socket.receive_str(timeout=BOUND_S))
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.ask(f"{domain}.enable")
        await self.ask("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        result = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true; on a page that is not there yet it is not."""
        guarded = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        try:
            await until(lambda: self.value(guarded), expression, BOUND_S)
        except AssertionError as late:
            raise AssertionError(f"{late}; shown: {await self.value('document.body.innerText')}") from None

    async def screenshot(self) -> bytes:
        """A PNG, in base64."""
        data: str = (await self.ask("Page.captureScreenshot", format="png"))["data"]
        return data.encode()

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])


@asynccontextmanager
async def browsing(chromium: str, folder: Path) -> AsyncIterator[Page]:
    """A tab of a browser of its own, whose files are in `folder`; it ends with the block."""
    profile = folder / "profile"
    environ = {
        **os.environ,
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "XDG_CACHE_HOME": str(folder),
    }
    with (folder / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            chromium,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=log,
            stderr=log,
            env=environ,
        )
    try:
        port = await _port_of(process, profile / "DevToolsActivePort", folder / "chromium.log")
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                [tab, *_] = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port_of(process: asyncio.subprocess.Process, file: Path, log: Path) -> int:
    """The port that the browser has written down."""
    await until(lambda: _read(file) or process.returncode is not None, "the browser opens its port", BOUND_S)
    assert process.returncode is None, f"the browser ended: {_read(log)[-2000:]}"
    return int(_read(file).splitlines()[0])


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
