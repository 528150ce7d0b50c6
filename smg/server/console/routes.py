"""`GET /console`, a page for people who watch the gateway, and `GET /console/data`, what it shows.

The page is one file to the browser and holds nothing secret; its data are for administrators only.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from smg.server.console.view import View
from smg.server.deps import Deps, json_answer

WATCHED_S = 1.0
UNWATCHED_S = 10.0
"""Between two readings of the counters, while somebody has asked for them lately and else."""
STAYS_WATCHED_S = 120.0

_FOLDER = Path(__file__).parent
_STYLE, _SCRIPT = "/* console.css */", "/* console.js */"


class Page(NamedTuple):
    body: bytes
    policy: str


class Console:
    """`run` reads the counters until it is cancelled."""

    def __init__(self, deps: Deps, view: View) -> None:
        self._deps = deps
        self._view = view
        self._page: Page | None = None
        self._watched = asyncio.Event()
        self._asked_at = float("-inf")

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/console", self.show),
            web.get("/console/data", self._deps.guarded(self.data)),
        ]

    async def show(self, request: web.Request) -> web.Response:
        if self._page is None:
            self._page = read_page()
        headers = {
            "Content-Security-Policy": self._page.policy,
            "Cache-Control": "no-cache",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        return web.Response(body=self._page.body, content_type="text/html", charset="utf-8", headers=headers)

    async def data(self, request: web.Request) -> web.Response:
        self._asked_at = asyncio.get_running_loop().time()
        self._watched.set()
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return json_answer(self._view.data(), headers=headers)

    async def run(self) -> None:
        """Every second while the console is watched, else often enough to have a minute's figures ready."""
        loop = asyncio.get_running_loop()
        while True:
            self._view.samples.take()
            if loop.time() - self._asked_at > STAYS_WATCHED_S:
                self._watched.clear()
            if self._watched.is_set():
                await asyncio.sleep(WATCHED_S)
                continue
            try:
                async with asyncio.timeout(UNWATCHED_S):
                    await self._watched.wait()
            except TimeoutError:
                pass


def read_page() -> Page:
    """The page with its style and script inside, and the policy that lets the browser run just these."""
    style, script = (_text(name) for name in ("console.css", "console.js"))
    page = _text("console.html").replace(_STYLE, style).replace(_SCRIPT, script)
    rules = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return Page(page.encode(), "; ".join(f"{name} {value}" for name, value in rules.items()))


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
