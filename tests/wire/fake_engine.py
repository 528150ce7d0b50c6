"""A scripted engine for tests of the control plane: answers by path, records what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[web.Request], web.StreamResponse]


class FakeEngine:
    """Speaks like SGLang or vLLM about `models`; `answers` of (path → answer) come first."""

    def __init__(
        self, *models: str, runtime: str = "sglang", prefix: str = "", host: str = "127.0.0.1"
    ) -> None:
        self.models = list(models)
        self.runtime = runtime
        self.prefix = prefix
        self.host = host
        self.answers: dict[str, Any] = {}
        self.seen: list[web.Request] = []
        self.port = 0
        self._server: TestServer | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> FakeEngine:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        server = TestServer(app, host=self.host, port=self.port or None, scheme="https" if tls else "http")
        await server.start_server(ssl=tls, shutdown_timeout=0.1)
        self.port = server.port or 0
        self._server = server
        return self

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.prefix}"

    def paths(self) -> list[str]:
        return [request.path for request in self.seen]

    def keys(self, path: str) -> list[str | None]:
        """`Authorization` of every request for a path."""
        return [r.headers.get("Authorization") for r in self.seen if r.path == path]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if not request.path.startswith(self.prefix + "/"):
            return web.Response(status=404)
        path = request.path.removeprefix(self.prefix)
        scripted = self.answers.get(path, self.usual(path))
        if callable(scripted):
            scripted = scripted(request)
        if asyncio.iscoroutine(scripted):
            scripted = await scripted
        if isinstance(scripted, web.StreamResponse):
            return scripted
        if isinstance(scripted, int):
            return web.Response(status=scripted)
        if isinstance(scripted, bytes):
            return web.Response(body=scripted)
        return web.json_response(scripted)

    def usual(self, path: str) -> Any:
        if path in ("/health", "/health_generate", "/flush_cache", "/start_profile", "/stop_profile"):
            return 200
        if path == "/v1/models":
            owner = {"sglang": "sglang", "vllm": "vllm"}.get(self.runtime, "somebody")
            cards = [
                {"id": m, "owned_by": owner, "root": f"/weights/{m}", "max_model_len": 8192}
                for m in self.models
            ]
            return {"object": "list", "data": cards}
        if self.runtime == "sglang" and path in ("/server_info", "/get_server_info"):
            model = self.models[0]
            return {"served_model_name": model, "model_path": model, "tp_size": 1, "api_key": "engine-secret"}
        if self.runtime == "sglang" and path in ("/model_info", "/get_model_info"):
            return {"model_path": self.models[0], "is_generation": True, "architectures": ["A"]}
        if self.runtime == "vllm" and path == "/version":
            return {"version": "0.11.0"}
        return 404
