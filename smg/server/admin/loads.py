"""Admin routes about what this gateway knows by itself: loads and tokenizers. Parsers are not built."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from smg import errors
from smg.server.deps import Deps, json_answer


class LoadRoutes:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def routes(self) -> list[web.RouteDef]:
        guarded = self._deps.guarded
        return [
            web.get("/get_loads", guarded(self.loads)),
            web.get("/v1/tokenizers", guarded(self.tokenizers)),
            web.post("/parse/reasoning", guarded(self.parse)),
            web.post("/parse/function_call", guarded(self.parse)),
        ]

    async def loads(self, request: web.Request) -> web.Response:
        """No engine reports its load to this gateway yet, so there is none to show."""
        timestamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        version = f"smg-{self._deps.version}"
        return json_answer({"timestamp": timestamp, "version": version, "dp_rank_count": 0, "loads": []})

    async def tokenizers(self, request: web.Request) -> web.Response:
        return json_answer({"tokenizers": []})

    async def parse(self, request: web.Request) -> web.Response:
        raise errors.not_implemented("Parsing")
