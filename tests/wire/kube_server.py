"""A Kubernetes API server for tests: it lists and watches pods, with pages, bookmarks, versions that expire,
and restarts."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from pathlib import Path
from typing import Any

from aiohttp import web

TOKEN = "tok"
NAMESPACE = "ns"
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


def pod(name: str, ip: str, ready: bool = True, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"u-{name}",
            "labels": {"app": "x", **labels},
            "annotations": {},
        },
        "spec": {"containers": []},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


class KubeServer:
    """`asked` holds the query of every request; `refuse` is a status that every request gets."""

    def __init__(self) -> None:
        self.port = 0
        self.version = 10
        self.oldest = 0
        self.pods: dict[str, dict[str, Any]] = {}
        self.token = TOKEN
        self.refuse = 0
        self.page = 500
        self.asked: list[dict[str, str]] = []
        self.watching = 0
        self._epoch = 0
        self._log: list[tuple[int, dict[str, Any]]] = []
        self._news = asyncio.Event()
        self._streams: set[asyncio.Transport] = set()
        self._runner: web.AppRunner | None = None

    # ---- what a test does

    async def start(self, tls: ssl.SSLContext | None = None) -> KubeServer:
        app = web.Application()
        app.router.add_get(POD_PATH, self._answer)
        app.router.add_get("/api/v1/pods", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Dies in the middle of its streams."""
        self.cut()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def cut(self) -> None:
        """Reset the connections of all watches."""
        for transport in self._streams:
            transport.abort()

    def end(self) -> None:
        """End all watches as a server does after their time."""
        self._epoch += 1
        self._wake()

    def put(self, one: dict[str, Any]) -> None:
        uid = one["metadata"]["uid"]
        self._tell("MODIFIED" if uid in self.pods else "ADDED", one)
        self.pods[uid] = one

    def delete(self, name: str) -> None:
        self._tell("DELETED", self.pods.pop(f"u-{name}"))

    def bookmark(self) -> None:
        self.version += 1
        self._log.append((self.version, _event("BOOKMARK", {"metadata": {}}, self.version)))
        self._wake()

    def error(self, code: int) -> None:
        """An error in the middle of every watch."""
        self.version += 1
        status = {"kind": "Status", "code": code, "reason": "Expired"}
        self._log.append((self.version, {"type": "ERROR", "object": status}))
        self._wake()

    def forget(self) -> None:
        """Versions up to now have expired; pods may have changed meanwhile."""
        self.version += 100
        self.oldest = self.version
        self._log.clear()

    def kubeconfig(self, folder: Path) -> str:
        path = folder / "kube.yaml"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
            "users": [{"name": "u", "user": {"token": self.token}}],
        }
        # JSON is YAML as well.
        path.write_text(json.dumps(content))
        return str(path)

    # ---- how it answers

    def _tell(self, kind: str, one: dict[str, Any]) -> None:
        self.version += 1
        self._log.append((self.version, _event(kind, one, self.version)))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.asked.append(query)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        if self.refuse:
            return web.json_response({"kind": "Status", "code": self.refuse}, status=self.refuse)
        if query.get("watch") in ("true", "True"):
            return await self._watch(request, int(query["resourceVersion"]))
        return self._list(query)

    def _list(self, query: dict[str, str]) -> web.Response:
        selector = query.get("labelSelector", "")
        fitting = [one for one in self.pods.values() if _fits(one["metadata"]["labels"], selector)]
        begin = int(query.get("continue", 0))
        end = begin + min(self.page, int(query["limit"]))
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if end < len(fitting):
            metadata["continue"] = str(end)
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": fitting[begin:end]})

    async def _watch(self, request: web.Request, version: int) -> web.StreamResponse:
        if version < self.oldest:
            return web.json_response({"kind": "Status", "code": 410}, status=410)
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        transport = request.transport
        assert transport is not None
        self._streams.add(transport)
        self.watching += 1
        epoch = self._epoch
        try:
            while epoch == self._epoch:
                news = self._news
                for at, event in self._log:
                    if at > version:
                        version = at
                        await response.write(json.dumps(event).encode() + b"\n")
                await news.wait()
            return response
        finally:
            self._streams.discard(transport)
            self.watching -= 1


def _fits(labels: dict[str, str], selector: str) -> bool:
    """`key=value` and `key in (a,b)`, as far as the tests use them."""
    for key, one, several in re.findall(r"([^,=\s]+)(?:=([^,]*)| in \(([^)]*)\))", selector):
        if labels.get(key) not in (several.split(",") if several else [one]):
            return False
    return True


def _event(kind: str, one: dict[str, Any], version: int) -> dict[str, Any]:
    metadata = {**one["metadata"], "resourceVersion": str(version)}
    return {"type": kind, "object": {"kind": "Pod", **one, "metadata": metadata}}
