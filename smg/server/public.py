"""Routes that are open to everybody: probes of the gateway, and questions passed on to an engine."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from smg import errors
from smg.server.deps import Deps, error_answer, json_answer
from smg.server.engine_metrics import merge
from smg.telemetry import logs
from smg.workers.engine import MAX_ANSWER_BYTES, Answer, EngineError
from smg.workers.worker import Status, Worker

log = logs.get(__name__)

INFO_TIMEOUT_S = 10.0
GENERATE_TIMEOUT_S = 60.0
METRICS_TIMEOUT_S = 10.0
SCRAPE_TIMEOUT_S = 60.0
MAX_WORKERS_ASKED = 3
PARALLEL_SCRAPES = 16
PARALLEL_QUESTIONS = 32
MAX_MERGED_BYTES = 64 << 20

# SGLang shows its whole command line to whoever asks.
_SECRETS = ("api_key", "admin_api_key", "ssl_keyfile_password")


class ProbeRoutes:
    """What load balancers and orchestrators ask; also all there is on the health-check port."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self.alive),
            web.get("/liveness", self.alive),
            web.get("/readiness", self.ready),
        ]

    async def alive(self, request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def ready(self, request: web.Request) -> web.Response:
        registry = self._deps.registry
        reason = self._deps.not_ready_reason()
        if reason is None and not registry.can_serve:
            reason = "insufficient healthy workers"
        if reason is not None:
            return json_answer({"status": "not ready", "reason": reason}, status=503)
        counts = {"healthy_workers": registry.ready_count, "total_workers": len(registry)}
        return json_answer({"status": "ready", **counts})


class InfoRoutes:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._questions = asyncio.Semaphore(PARALLEL_QUESTIONS)
        self._scrape = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health_generate", self.health_generate),
            web.get("/get_model_info", self.model_info),
            web.get("/get_server_info", self.server_info),
            web.get("/engine_metrics", self.engine_metrics),
        ]

    async def health_generate(self, request: web.Request) -> web.Response:
        return await self._pass_on(GENERATE_TIMEOUT_S, "/health_generate")

    async def model_info(self, request: web.Request) -> web.Response:
        return await self._pass_on(INFO_TIMEOUT_S, "/get_model_info", "/model_info")

    async def server_info(self, request: web.Request) -> web.Response:
        return await self._pass_on(INFO_TIMEOUT_S, "/get_server_info", "/server_info")

    async def engine_metrics(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT_S), self._scrape:
                texts = await self._scrape_all()
        except TimeoutError:
            raise errors.call_upstream_timeout(SCRAPE_TIMEOUT_S) from None
        if not texts:
            return error_answer(errors.no_engine_metrics())
        return web.Response(text=merge(texts), headers={"Content-Type": "text/plain; version=0.0.4"})

    def _engines(self) -> list[Worker]:
        ready = [w for w in self._deps.registry.all() if w.status is Status.READY]
        # Of several ranks at one address one is enough.
        engines = {w.base_url: w for w in reversed(ready) if not w.is_external}
        return list(engines.values())[::-1]

    async def _pass_on(self, timeout_s: float, *paths: str) -> web.Response:
        """The answer of the least busy engine that gives one."""
        workers = sorted(self._engines(), key=lambda worker: worker.load)[:MAX_WORKERS_ASKED]
        if not workers:
            raise errors.no_workers()
        total_s = timeout_s * MAX_WORKERS_ASKED
        try:
            async with asyncio.timeout(total_s), self._questions:
                answer = await self._ask_in_turn(workers, timeout_s, paths)
        except TimeoutError:
            raise errors.call_upstream_timeout(total_s) from None
        body = _without_secrets(answer)
        return web.Response(body=body, status=answer.status, content_type=answer.content_type)

    async def _ask_in_turn(self, workers: list[Worker], timeout_s: float, paths: tuple[str, ...]) -> Answer:
        for worker in workers:
            try:
                return await self._ask(worker, timeout_s, paths)
            except EngineError as error:
                log.warn("engine did not answer", worker=worker.url, problem=str(error))
        raise errors.call_upstream_connection_failed()

    async def _ask(self, worker: Worker, timeout_s: float, paths: tuple[str, ...]) -> Answer:
        """Engines know a route under its old name, its new one, or both."""
        key = self._deps.prober.key_of(worker)
        answer = await self._deps.client.get(worker.base_url + paths[0], key, timeout_s)
        for path in paths[1:]:
            if answer.status == 404:
                answer = await self._deps.client.get(worker.base_url + path, key, timeout_s)
        return answer

    async def _scrape_all(self) -> list[tuple[str, str]]:
        """(URL, text) of every engine that answered, until the texts become too large together."""
        slots = asyncio.Semaphore(PARALLEL_SCRAPES)
        texts: list[tuple[str, str]] = []
        size = 0

        async def scrape(worker: Worker) -> None:
            nonlocal size
            key = self._deps.prober.key_of(worker)
            async with slots:
                if size >= MAX_MERGED_BYTES:
                    return
                try:
                    answer = await self._deps.client.get(
                        worker.base_url + "/metrics", key, METRICS_TIMEOUT_S, limit=MAX_ANSWER_BYTES
                    )
                except EngineError:
                    return
            if answer.is_ok:
                size += len(answer.body)
                texts.append((worker.base_url, answer.body.decode("utf-8", "replace")))

        await asyncio.gather(*(scrape(worker) for worker in self._engines()))
        return sorted(texts)


def _without_secrets(answer: Answer) -> bytes:
    if not any(name.encode() in answer.body for name in _SECRETS):
        return answer.body
    try:
        content = answer.json()
    except EngineError:
        return answer.body
    return msgspec.json.encode(_strip(content))


def _strip(content: object) -> object:
    if isinstance(content, dict):
        return {name: _strip(value) for name, value in content.items() if name not in _SECRETS}
    if isinstance(content, list):
        return [_strip(value) for value in content]
    return content
