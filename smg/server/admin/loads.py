"""Admin routes about what this gateway knows by itself, loads and tokenizers, and those it does not offer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from smg import errors
from smg.server.deps import Deps, Handler, json_answer

_SHOWN_CHARACTERS = 256


class LoadRoutes:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def routes(self) -> list[web.RouteDef]:
        guarded = self._deps.guarded
        return [
            web.get("/get_loads", guarded(self.loads)),
            web.get("/v1/tokenizers", guarded(self.tokenizers)),
            web.post("/v1/tokenizers", guarded(_refuse(lambda: errors.not_implemented("Adding tokenizers")))),
            web.get("/v1/tokenizers/{name}", guarded(self.tokenizer)),
            web.delete("/v1/tokenizers/{name}", guarded(self.tokenizer)),
            web.get("/wasm", guarded(_refuse(errors.wasm_not_offered))),
            web.post("/wasm", guarded(_refuse(errors.wasm_not_offered))),
            web.delete("/wasm/{module}", guarded(_refuse(errors.wasm_not_offered))),
            web.post("/heap_profile", guarded(_refuse(errors.heap_profile_not_built))),
        ]

    async def loads(self, request: web.Request) -> web.Response:
        """The last reports of the engines, a row for each data-parallel rank, and their sums."""
        rows = [
            {"worker": worker.url, "worker_type": worker.worker_type, **row}
            for worker in self._deps.registry.all()
            for row in worker.load_rows
        ]
        timestamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        answer: dict[str, Any] = {
            "timestamp": timestamp,
            "version": f"smg-{self._deps.version}",
            "dp_rank_count": len(rows),
            "loads": rows,
        }
        if rows:
            answer["aggregate"] = _aggregate(rows)
        return json_answer(answer)

    async def tokenizers(self, request: web.Request) -> web.Response:
        return json_answer({"tokenizers": []})

    async def tokenizer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"][:_SHOWN_CHARACTERS].encode("utf-8", "replace").decode()
        problem = {"message": f"Tokenizer '{name}' not found", "type": "tokenizer_not_found"}
        return json_answer({"error": problem}, status=404)


def _refuse(refusal: Callable[[], errors.GatewayError]) -> Handler:
    async def refuse(request: web.Request) -> web.StreamResponse:
        raise refusal()

    return refuse


def _aggregate(rows: list[dict[str, Any]]) -> dict[str, float]:
    def told(name: str) -> list[float]:
        return [row[name] for row in rows if name in row]

    def mean(name: str) -> float:
        values = told(name)
        return sum(values) / len(values) if values else 0.0

    return {
        "total_running_reqs": sum(told("num_running_reqs")),
        "total_waiting_reqs": sum(told("num_waiting_reqs")),
        "total_reqs": sum(
            row.get("num_total_reqs", row.get("num_running_reqs", 0) + row.get("num_waiting_reqs", 0))
            for row in rows
        ),
        "avg_token_usage": mean("token_usage"),
        "avg_throughput": mean("gen_throughput"),
        "avg_utilization": mean("utilization"),
    }
