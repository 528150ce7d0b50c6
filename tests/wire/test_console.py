"""The console's page and its data: who may have them, what is in them, and that they are bounded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from smg.config.admission import CLASSES
from smg.config.specs import ControlPlaneKey, TenantKey, WorkerUrl
from smg.server.console import view
from smg.telemetry.failures import MOST
from smg.workers.breaker import Breaker
from smg.workers.worker import Status, Worker
from tests.waiting import happened, until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import chat, get, post
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker, plain

LIMITS = """
default_policy: {tokens_per_minute: 1000, requests_per_minute: 10}
tenants: [{tenant_key: "auth:t", tokens_per_minute: 1000, requests_per_minute: 10}]
"""


async def data(live: LiveGateway, *lines: str) -> Any:
    answer = await live.ask(get("/console/data", *lines), "GET")
    assert answer.status == 200
    return answer.json()


async def test_the_page_holds_all_it_needs_and_allows_nothing_else(gateway: Start) -> None:
    live = await gateway()
    answer = await live.ask(get("/console"), "GET")
    assert (answer.status, answer.get("content-type")) == (200, "text/html; charset=utf-8")
    page, policy = answer.body.decode(), answer.get("content-security-policy") or ""
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("style", "script"):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"""<[^>]*\s(?:on\w+|style|src)\s*=|https?://|@import|url\(""", page)
    assert "innerHTML" not in page


@pytest.mark.parametrize(
    ("options", "key", "status"),
    [
        ({}, None, 200),
        ({"api_key": "shared"}, None, 401),
        ({"api_key": "shared"}, "wrong", 401),
        ({"api_key": "shared"}, "shared", 200),
        ({"tenant_api_key": (TenantKey.parse("t:tenant"),)}, "tenant", 401),
        ({"control_plane_api_keys": (ControlPlaneKey.parse("a:A:admin:adm"),)}, None, 401),
        ({"control_plane_api_keys": (ControlPlaneKey.parse("a:A:admin:adm"),)}, "adm", 200),
        ({"control_plane_api_keys": (ControlPlaneKey.parse("a:A:user:usr"),)}, "usr", 403),
    ],
)
async def test_data_are_for_administrators(
    gateway: Start, options: dict[str, Any], key: str | None, status: int
) -> None:
    live = await gateway(**options)
    lines = [f"Authorization: Bearer {key}"] if key is not None else []
    answer = await live.ask(get("/console/data", *lines), "GET")
    assert answer.status == status
    assert (await live.ask(get("/console"), "GET")).status == 200
    if status == 200:
        assert answer.get("cache-control") == "no-store"


async def test_what_is_told_of_traffic(gateway: Start) -> None:
    live = await gateway(worker := ScriptedWorker())
    before = await data(live)
    assert before["first_token"] == {"count": 0, "p50_s": None, "p99_s": None}
    for _ in range(3):
        assert (await live.ask(post())).status == 200
    assert (await live.ask(post(chat(model="unknown")))).status == 404
    await live.settled()
    told = await data(live)
    [shown] = told["workers"]
    assert (shown["url"], shown["status"], shown["breaker"]) == (worker.url, "ready", "closed")
    assert (shown["calls_last_minute"], shown["failures_last_minute"]) == (3, 0)
    assert told["first_token"]["count"] == 3
    assert 0 < told["first_token"]["p50_s"] <= told["first_token"]["p99_s"]
    assert told["calls_per_s"] > 0 and told["failures_per_s"] > 0
    assert (told["workers_total"], told["workers_ready"], told["in_flight"]) == (1, 1, 0)


async def test_failures_by_cause(gateway: Start) -> None:
    async def fail(connection: Connection, request: Request) -> None:
        await connection.send(plain(b"{}", "503 Service Unavailable"))

    live = await gateway(worker := ScriptedWorker(fail), retry_max_retries=1)
    await live.ask(post(chat(), "X-Request-ID: first"))
    await live.ask(post(chat(model="<b>x</b>")))
    await live.ask(post(chat(), "X-Request-ID: last"))
    await live.settled()
    failures = (await data(live))["failures"]
    assert failures["total"] == 3
    causes = [(one["status"], one["code"], one["count"]) for one in failures["causes"]]
    assert causes == [(503, "", 2), (404, "model_not_found", 1)]
    latest = [(one["request_id"], one["model"], one["worker"]) for one in failures["latest"]]
    assert latest[0] == ("last", "m", worker.url)
    assert latest[1][1:] == ("<b>x</b>", "")
    assert latest[2] == ("first", "m", worker.url)


async def test_clients_that_leave_are_no_failures(gateway: Start) -> None:
    async def wait(connection: Connection, request: Request) -> None:
        await connection.ended.wait()

    live = await gateway(ScriptedWorker(wait))
    client = await live.client()
    await client.send(post())
    await until(lambda: any(w.load for w in live.server.registry.all()), "the worker has it")
    client.reset()
    await live.settled()
    assert (await data(live))["failures"]["total"] == 0


async def test_everything_is_bounded(gateway: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    live = await gateway()
    for number in range(view.MAX_WORKERS + 10):
        labels = {f"label-{n}": "v" * 10_000 for n in range(100)}
        worker = Worker(WorkerUrl.parse(f"http://10.0.0.1:{number + 1}"), _breaker(), labels=labels)
        live.server.registry.add(worker)
    [first, *_] = live.server.registry.all()
    live.server.registry.set_status(first, Status.FAILED)
    for number in range(MOST):
        live.server.metrics.failures.add("/generate", 500, f"code {number}", "m" * 10_000, "", "")
    told = await data(live)
    assert (len(told["workers"]), told["workers_total"]) == (view.MAX_WORKERS, view.MAX_WORKERS + 10)
    assert len(told["workers"][0]["labels"]) == view.MAX_LABELS
    assert max(len(value) for value in told["workers"][0]["labels"].values()) == view.MAX_CHARACTERS
    assert len(told["failures"]["causes"]) == len(told["failures"]["latest"]) == view.MAX_FAILURES


async def test_workers_in_trouble_come_first(gateway: Start) -> None:
    workers = [ScriptedWorker(), ScriptedWorker(), ScriptedWorker()]
    live = await gateway(*workers)
    last = sorted(worker.url for worker in workers)[-1]
    found = live.server.registry.find_url(last)
    assert found is not None
    live.server.registry.set_status(found, Status.NOT_READY)
    urls = [one["url"] for one in (await data(live))["workers"]]
    assert urls[0] == last and urls[1:] == sorted(urls[1:])


async def test_lines_and_permits(gateway: Start) -> None:
    async def wait(connection: Connection, request: Request) -> None:
        await happened(may_answer)
        await connection.send(plain(b"{}"))

    may_answer = asyncio.Event()
    live = await gateway(ScriptedWorker(wait), max_concurrent_requests=1, queue_size=5)
    asked = [asyncio.create_task(live.ask(post())) for _ in range(3)]
    await until(lambda: live.server.guards.permits.snapshot()["waiting"] == 2, "two wait")
    told = await data(live)
    assert told["queues"] == [{"name": "", "in_flight": 1, "limit": 1, "waiting": 2, "queue_size": 5}]
    assert told["tenants"] is None and told["in_flight"] == 1
    may_answer.set()
    assert [(await one).status for one in asked] == [200, 200, 200]


async def test_lines_of_classes_and_tenants_near_their_limits(gateway: Start, tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text(LIMITS, encoding="utf-8")
    live = await gateway(
        ScriptedWorker(),
        tenant_api_key=(TenantKey.parse("t:tenant"),),
        control_plane_api_keys=(ControlPlaneKey.parse("a:A:admin:adm"),),
        priority_scheduler_enabled=True,
        tenant_rate_limit_enabled=True,
        tenant_rate_limit_config=str(limits),
    )
    assert (await live.ask(post(chat(), "Authorization: Bearer tenant"))).status == 200
    told = await data(live, "Authorization: Bearer adm")
    assert [one["name"] for one in told["queues"]] == ["", *CLASSES]
    assert told["tenants"]["denied"] == 0
    [nearest] = told["tenants"]["nearest"]
    assert nearest["tenant"] == "auth:t" and 0 < nearest["used"] <= 1


async def test_the_share_of_cache_hits(gateway: Start) -> None:
    live = await gateway(worker := ScriptedWorker())
    live.server.metrics.plug("smg_worker_prompt_bytes_total", lambda: [((worker.url,), 200)])
    live.server.metrics.plug("smg_worker_matched_bytes_total", lambda: [((worker.url,), 50)])
    assert (await data(live))["workers"][0]["hit_share"] == 0.25


def _breaker() -> Breaker:
    return Breaker(10, 3, 60, 120, True)
