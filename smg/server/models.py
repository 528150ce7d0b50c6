"""`/v1/models`: what self-hosted workers serve, or what the caller's own key can use at a provider."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from smg import errors
from smg.admission.identity import bearer_key
from smg.server.deps import Deps, header_bytes, json_answer
from smg.workers.engine import EngineError
from smg.workers.spec import provider_of_model
from smg.workers.worker import Status, Worker

PROVIDER_TIMEOUT_S = 5.0
ALL_PROVIDERS_TIMEOUT_S = 15.0
PARALLEL_LISTINGS = 32
MAX_LISTED = 4096

ANTHROPIC_VERSION = "2023-06-01"


class ModelRoutes:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._slots = asyncio.Semaphore(PARALLEL_LISTINGS)

    def routes(self) -> list[web.RouteDef]:
        # Model names contain slashes; clients escape them or not.
        return [web.get("/v1/models", self.show_all), web.get("/v1/models/{model:.+}", self.show)]

    async def show_all(self, request: web.Request) -> web.Response:
        listed = await self._listed(request)
        if not listed:
            raise errors.no_models_available()
        return json_answer({"object": "list", "data": listed})

    async def show(self, request: web.Request) -> web.Response:
        name = request.match_info["model"]
        canonical = self._deps.registry.resolve(name)
        for entry in await self._listed(request):
            if entry["id"] == canonical:
                return json_answer(entry)
        raise errors.model_not_found(name.encode("utf-8", "replace").decode())

    async def _listed(self, request: web.Request) -> list[dict[str, Any]]:
        key = self._own_key(request)
        if key is not None:
            found = await self._ask_providers(key)
            if found:
                return found
        return [_entry(model, "self_hosted") for model in self._deps.registry.self_hosted_models]

    def _own_key(self, request: web.Request) -> str | None:
        """The caller's key for a provider, unless it is one of ours or no key can look like that."""
        for key in (bearer_key(header_bytes(request, "Authorization")), header_bytes(request, "x-api-key")):
            if not key or self._deps.identity.is_gateway_key(key) or self._deps.guard.is_control_key(key):
                continue
            if key.isascii() and (text := key.decode()).isprintable():
                return text
        return None

    async def _ask_providers(self, key: str) -> list[dict[str, Any]]:
        """The first list that is not empty."""
        workers = self._deps.registry.all()
        providers = [w for w in workers if w.is_external and w.status is Status.READY]
        if not providers:
            return []
        try:
            async with asyncio.timeout(ALL_PROVIDERS_TIMEOUT_S), self._slots:
                for worker in providers:
                    found = await self._ask(worker, key)
                    if found:
                        return found
        except TimeoutError:
            pass
        return []

    async def _ask(self, worker: Worker, key: str) -> list[dict[str, Any]]:
        headers = {}
        if worker.provider == "anthropic":
            headers = {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION}
        url = worker.base_url + "/v1/models"
        try:
            answer = await self._deps.client.get(url, key, PROVIDER_TIMEOUT_S, headers=headers)
            content = answer.json() if answer.is_ok else None
        except EngineError:
            return []
        data = content.get("data") if isinstance(content, dict) else None
        entries = data[:MAX_LISTED] if isinstance(data, list) else []
        named = [e for e in entries if isinstance(e, dict) and isinstance(e.get("id"), str)]
        return [_entry(entry["id"], _owner(worker, entry)) for entry in named]


def _entry(model: str, owner: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": 0, "owned_by": owner}


def _owner(worker: Worker, entry: dict[str, Any]) -> str:
    told = entry.get("owned_by")
    fallback = told if isinstance(told, str) else "external"
    return worker.provider or provider_of_model(entry["id"]) or fallback
