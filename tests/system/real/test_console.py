"""The console in a real browser: what an operator sees, and that nothing shown is run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.system.processes import Processes, Running
from tests.system.real.browser import Page, browsing
from tests.waiting import START_S, until

pytestmark = pytest.mark.timeout(150)

EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


class Gateway:
    def __init__(self, processes: Processes, port: int, *options: str) -> None:
        self._processes = processes
        self._port = port
        self._options = options
        self.url = f"http://127.0.0.1:{port}"
        self.process = self.start()

    def start(self) -> Running:
        words = ("--host", "127.0.0.1", "--port", str(self._port), "--prometheus-port", "0")
        self.process = self._processes.smg(
            "launch",
            *words,
            "--prometheus-host",
            "127.0.0.1",
            "--shutdown-grace-period-secs",
            "0",
            *self._options,
        )
        return self.process

    async def page(self) -> str:
        """Where the console is, as soon as the gateway answers."""
        await until(self._answers, "the gateway answers", START_S)
        return f"{self.url}/console"

    async def _answers(self) -> bool:
        return await self.ask("GET", "/health") == 200

    async def ask(self, method: str, path: str, **options: Any) -> int:
        """The status, 0 when there is no connection."""
        async with aiohttp.ClientSession() as session:
            try:
                async with session.request(method, self.url + path, **options) as answer:
                    await answer.read()
                    return answer.status
            except aiohttp.ClientConnectionError:
                return 0


@pytest.fixture
def engine(started: Processes, free_port: int) -> str:
    started.smg("sim", "--port", str(free_port), "--model", "m").wait_for("ready")
    return f"http://127.0.0.1:{free_port}"


@pytest.fixture
async def page(chromium: str, tmp_path: Path) -> AsyncIterator[Page]:
    async with browsing(chromium, tmp_path) as page:
        yield page


def text(selector: str) -> str:
    return f"document.querySelector({selector!r}).innerText"


async def test_workers_errors_and_hostile_names(
    page: Page, started: Processes, engine: str, free_ports: Any
) -> None:
    gateway = Gateway(started, free_ports(1)[0], "--worker-urls", engine)
    await page.open(await gateway.page())
    await page.until(f"{text('#workers')}.includes({engine!r}) && {text('#state')} === 'serving'")
    assert "ready" in await page.value(text("#workers"))
    assert await page.value(text("#latest")) == "None."

    worker = {"url": "http://127.0.0.1:9", "labels": {"evil": EVIL}}
    assert await gateway.ask("POST", "/workers", json=worker) == 202
    body = {"model": EVIL, "messages": [{"role": "user", "content": "hi"}]}
    assert await gateway.ask("POST", "/v1/chat/completions", json=body) == 404
    await page.until(f"{text('#latest')}.includes('model_not_found')")
    await page.until(f"{text('#causes')}.includes('model_not_found')")
    assert EVIL[:30] in await page.value(text("#latest"))
    await page.until("document.querySelector('#workers').textContent.includes('evil=<img src=x')")
    assert await page.value("document.querySelectorAll('#board img, #board script').length") == 0
    assert await page.value("document.title") == "smg console"
    assert page.problems == []


async def test_the_key_is_asked_for_and_kept_in_the_tab(
    page: Page, started: Processes, engine: str, free_ports: Any
) -> None:
    gateway = Gateway(started, free_ports(1)[0], "--worker-urls", engine, "--api-key", "secret-key")
    await page.open(await gateway.page())
    await page.until("!document.getElementById('ask').hidden")
    assert await page.value("document.getElementById('board').hidden")

    async def enter(key: str) -> None:
        await page.value(
            f"document.getElementById('key').value = {key!r};"
            "document.querySelector('#ask button').click(); null"
        )

    await enter("wrong")
    await page.until(f"{text('#why')}.includes('does not know')")
    await enter("secret-key")
    await page.until(f"!document.getElementById('board').hidden && {text('#workers')}.includes({engine!r})")
    assert await page.value("sessionStorage.length === 1 && localStorage.length === 0 && !document.cookie")
    assert "secret-key" not in await page.value("document.documentElement.outerHTML")
    await page.ask("Page.reload")
    await page.until(f"document.getElementById('workers') && {text('#workers')}.includes({engine!r})")
    await page.value("document.getElementById('forget').click()")
    await page.until("!document.getElementById('ask').hidden && sessionStorage.length === 0")


async def test_it_outlives_a_restart_of_the_gateway(
    page: Page, started: Processes, engine: str, free_ports: Any
) -> None:
    gateway = Gateway(started, free_ports(1)[0], "--worker-urls", engine)
    await page.open(await gateway.page())
    await page.until(f"{text('#state')} === 'serving'")
    assert gateway.process.stop() == 0
    await page.until(f"{text('#state')} === 'connection lost'")
    gateway.start()
    await page.until(f"{text('#state')} === 'serving'")


@pytest.mark.parametrize("width", [1280, 390])
async def test_it_fits_the_screen(
    page: Page, started: Processes, engine: str, free_ports: Any, width: int
) -> None:
    gateway = Gateway(started, free_ports(1)[0], "--worker-urls", engine)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    await page.ask("Emulation.setDeviceMetricsOverride", **size)
    await page.open(await gateway.page())
    await page.until(f"{text('#state')} === 'serving'")
    assert await page.value("document.documentElement.scrollWidth") <= width
