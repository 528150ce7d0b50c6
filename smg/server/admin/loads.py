"""Admin routes about what this gateway knows by itself: loads and tokenizers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from smg.server.deps import Deps, json_answer


class LoadRoutes:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def routes(self) -> list[web.RouteDef]:
        guarded = self._deps.guarded
        return [
            web.get("/get_loads", guarded(self.loads)),
            web.get("/v1/tokenizers", guarded(self.tokenizers)),
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
