"""Workers register, fail, come back and go, seen with scripted engines on real sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import trustme
from aiohttp import web

from smg.workers.worker import Status
from tests.waiting import until
from tests.wire.control_plane import control_plane
from tests.wire.fake_engine import FakeEngine

Start = Callable[..., Awaitable[FakeEngine]]

FAST = {
    "timeout_secs": 2,
    "check_interval_secs": 0.04,
    "success_threshold": 2,
    "failure_threshold": 2,
    "drain_settle_secs": 0,
}


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    engines: list[FakeEngine] = []

    async def start(*models: str, tls: ssl.SSLContext | None = None, **options: Any) -> FakeEngine:
        engine = FakeEngine(*models, **options)
        engines.append(engine)
        return await engine.start(tls)

    yield start
    for engine in engines:
        await engine.stop()


async def test_sglang_engine_is_recognised(start: Start) -> None:
    engine = await start("m")
    async with control_plane(engine.url) as plane:
        await plane.ready(1)
        worker = plane.worker(engine.url)
        assert (worker.runtime, worker.model_id, worker.models) == ("sglang", "m", ("m",))
        assert worker.labels["served_model_name"] == "m"
        assert worker.labels["model_path"] == "m"
        assert worker.labels["tp_size"] == "1"
        assert worker.labels["is_generation"] == "true"
        assert worker.labels["architectures"] == '["A"]'
        assert worker.labels["max_model_len"] == "8192"
        assert "engine-secret" not in worker.labels.values()
        assert worker.cards[0].context_length == 8192
        assert worker.backend is not None
        first = engine.seen[0]
        assert first.path == "/health"
        assert set(first.headers) <= {"Host", "Accept", "Connection"}


async def test_vllm_engine_and_its_adapters(start: Start) -> None:
    engine = await start("base", "lora-1", "lora-2", runtime="vllm")
    async with control_plane(engine.url) as plane:
        await plane.ready(1)
        worker = plane.worker(engine.url)
        assert worker.runtime == "vllm"
        assert worker.model_id == "base"
        assert worker.models == ("base", "lora-1", "lora-2")
        assert worker.labels["version"] == "0.11.0"
        entry = plane.registry.find("lora-2")
        assert entry is not None
        assert entry.ready == (worker,)


async def test_runtime_by_other_routes_when_the_owner_says_nothing(start: Start) -> None:
    plain = await start("a", runtime="other")
    sglang = await start("b", runtime="other")
    sglang.answers["/get_server_info"] = {"model_path": "b"}
    vllm = await start("c", runtime="other")
    vllm.answers["/version"] = {"version": "1"}
    vllm.answers["/server_info"] = {"model_path": "c"}
    async with control_plane(plain.url, sglang.url, vllm.url) as plane:
        await plane.ready(3)
        assert [w.runtime for w in plane.registry.all()] == ["generic", "sglang", "vllm"]


async def test_model_named_by_server_info_alone(start: Start) -> None:
    engine = await start("m")
    engine.answers["/v1/models"] = 404
    async with control_plane(engine.url) as plane:
        await plane.ready(1)
        assert plane.worker(engine.url).models == ("m",)


async def test_probes_carry_the_gateway_key_but_the_first(start: Start) -> None:
    engine = await start("m")
    async with control_plane(engine.url, api_key="sk") as plane:
        await plane.ready(1)
        health = engine.keys("/health")
        assert health[0] is None
        assert health[-1] == "Bearer sk"
        assert set(engine.keys("/v1/models")) == {"Bearer sk"}


async def test_engine_that_wants_a_key_for_everything(start: Start) -> None:
    engine = await start("m")

    def health(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers.get("Authorization") == "Bearer wk" else 401)

    engine.answers["/health"] = health
    async with control_plane(api_key="sk") as plane:
        body = {"url": engine.url, "api_key": "wk"}
        status, _ = await plane.ask("POST", "/workers", json=body, headers={"Authorization": "Bearer sk"})
        assert status == 202
        await plane.ready(1)
        assert set(engine.keys("/v1/models")) == {"Bearer wk"}


async def test_path_prefix_is_kept(start: Start) -> None:
    engine = await start("m", prefix="/engines/one")
    async with control_plane(engine.url + "/") as plane:
        await plane.ready(1)
        assert plane.worker(engine.url).url == engine.url
        assert all(path.startswith("/engines/one/") for path in engine.paths())


async def test_ipv6(start: Start) -> None:
    engine = await start("m", host="::1")
    async with control_plane(engine.url) as plane:
        await plane.ready(1)
        assert plane.worker(engine.url).url == f"http://[::1]:{engine.port}"


async def test_https_with_own_authority(start: Start) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    engine = await start("m", tls=server)
    url = f"https://localhost:{engine.port}"
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with control_plane(url, tls=trusting) as plane:
        await plane.ready(1)
    async with control_plane(url) as distrusting:
        await until(lambda: "certificate" in (_job_message(distrusting) or ""))
        assert distrusting.registry.ready_count == 0


def _job_message(plane: Any) -> str | None:
    (worker,) = plane.registry.all()
    job = plane.registrar.find_job(worker.id)
    return None if job is None else job.message


async def test_engine_that_comes_up_late(start: Start) -> None:
    engine = await start("m")
    await engine.stop()
    async with control_plane(engine.url, worker_startup_timeout_secs=1) as plane:
        await until(lambda: _job_message(plane))
        worker = plane.worker(engine.url)
        assert worker.status is Status.PENDING
        assert plane.registry.find("m") is None
        await engine.start()
        await plane.ready(1)
        assert plane.registrar.find_job(worker.id) is None


async def test_engine_that_comes_up_after_the_start_up_time(start: Start) -> None:
    engine = await start("m")
    engine.answers["/health"] = 503
    async with control_plane(engine.url, worker_startup_timeout_secs=1) as plane:
        worker = plane.worker(engine.url)
        await until(lambda: worker.status is Status.FAILED)
        job = plane.registrar.find_job(worker.id)
        assert job is not None
        assert job.status == "failed"
        del engine.answers["/health"]
        await plane.ready(1)


async def test_engine_that_never_comes_up_is_removed_when_wanted(start: Start) -> None:
    engine = await start("m")
    engine.answers["/health"] = 503
    options = {"worker_startup_timeout_secs": 1, "remove_unhealthy_workers": True}
    async with control_plane(**options) as plane:
        await plane.ask("POST", "/workers", json={"url": engine.url, "health": FAST})
        await until(lambda: len(plane.registry) == 0)


@pytest.mark.parametrize(
    "answer",
    [b"{", b"[]", b'{"data": 5}', b'{"data": [1, {"id": 7}, {"id": ""}]}', b"[" * 100_000, b"\xff\xfe"],
    ids=["cut", "list", "number", "entries", "deep", "no-text"],
)
async def test_broken_model_list_is_no_model(start: Start, answer: bytes) -> None:
    engine = await start("m", runtime="other")
    engine.answers["/v1/models"] = answer
    async with control_plane(engine.url) as plane:
        await until(lambda: _job_message(plane))
        assert plane.registry.ready_count == 0
        engine.answers["/v1/models"] = {"data": [{"id": "m"}, {"id": "m"}]}
        await plane.ready(1)
        assert plane.worker(engine.url).models == ("m",)


async def test_broken_metadata_does_not_matter(start: Start) -> None:
    engine = await start("m")
    engine.answers["/server_info"] = b"<html>"
    engine.answers["/model_info"] = 500
    async with control_plane(engine.url) as plane:
        await plane.ready(1)


async def test_answer_without_end_is_cut(start: Start) -> None:
    engine = await start("m", runtime="other")
    cut = asyncio.Event()

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
        finally:
            cut.set()

    engine.answers["/v1/models"] = flood
    async with control_plane(engine.url) as plane:
        await asyncio.wait_for(cut.wait(), 20)
        assert plane.registry.ready_count == 0


async def test_redirects_are_not_followed(start: Start) -> None:
    other = await start("evil")
    engine = await start("m")
    engine.answers["/health"] = lambda request: web.Response(
        status=302, headers={"Location": other.url + "/health"}
    )
    async with control_plane(engine.url, api_key="sk") as plane:
        await until(lambda: _job_message(plane) == "/health answered 302")
        assert other.seen == []


async def test_worker_leaves_and_comes_back(start: Start) -> None:
    engine = await start("m")
    async with control_plane() as plane:
        await plane.ask("POST", "/workers", json={"url": engine.url, "health": FAST})
        await plane.ready(1)
        worker = plane.worker(engine.url)
        await engine.stop()
        await until(lambda: worker.status is Status.NOT_READY)
        entry = plane.registry.find("m")
        assert entry is not None
        assert (entry.workers, entry.ready) == ((worker,), ())
        await until(lambda: worker.status is Status.FAILED)
        assert plane.registry.self_hosted_models == ("m",)
        await engine.start()
        await plane.ready(1)
        assert worker.status is Status.READY


async def test_restarted_engine_may_serve_another_model(start: Start) -> None:
    engine = await start("old")
    async with control_plane() as plane:
        body = {"url": engine.url, "health": FAST, "labels": {"zone": "a"}}
        await plane.ask("POST", "/workers", json=body)
        await plane.ready(1)
        await engine.stop()
        await plane.ready(0)
        engine.models = ["new"]
        await engine.start()
        await plane.ready(1)
        assert plane.registry.find("old") is None
        assert plane.worker(engine.url).model_id == "new"
        assert plane.worker(engine.url).labels["served_model_name"] == "new"
        assert plane.worker(engine.url).labels["zone"] == "a"


async def test_failed_worker_is_removed_when_wanted(start: Start) -> None:
    engine = await start("m")
    async with control_plane(remove_unhealthy_workers=True) as plane:
        await plane.ask("POST", "/workers", json={"url": engine.url, "health": FAST})
        await plane.ready(1)
        await engine.stop()
        await until(lambda: len(plane.registry) == 0)


async def test_health_checks_turned_off(start: Start) -> None:
    engine = await start("m")
    async with control_plane() as plane:
        health = FAST | {"disable_health_check": True}
        await plane.ask("POST", "/workers", json={"url": engine.url, "health": health})
        await plane.ready(1)
        seen = len(engine.seen)
        engine.answers["/health"] = 500
        path = f"/workers/{plane.worker(engine.url).id}"
        await plane.ask("PATCH", path, json={"health": {"disable_health_check": False}})
        await plane.ready(0)
        assert len(engine.seen) > seen
        await plane.ask("PATCH", path, json={"health": {"disable_health_check": True}})
        await plane.ready(1)


async def test_removed_worker_is_closed_when_its_streams_have_ended(start: Start) -> None:
    engines = [await start("m"), await start("m")]
    async with control_plane() as plane:
        for engine in engines:
            await plane.ask("POST", "/workers", json={"url": engine.url, "health": FAST})
        await plane.ready(2)
        busy, idle = (plane.worker(engine.url) for engine in engines)
        backends: list[Any] = [busy.backend, idle.backend]
        busy.load = 1
        for worker in (busy, idle):
            status, _ = await plane.ask("DELETE", f"/workers/{worker.id}")
            assert status == 202
        assert plane.registry.find("m") is None
        await until(lambda: backends[1].closed)
        assert not backends[0].closed
        busy.load = 0
        await until(lambda: backends[0].closed)


async def test_stream_that_never_ends_is_cut_in_the_end(start: Start) -> None:
    engine = await start("m")
    async with control_plane(drain_limit_s=0.05) as plane:
        await plane.ask("POST", "/workers", json={"url": engine.url, "health": FAST})
        await plane.ready(1)
        worker = plane.worker(engine.url)
        backend: Any = worker.backend
        worker.load = 1
        await plane.ask("DELETE", f"/workers/{worker.id}")
        await until(lambda: backend.closed)


async def test_url_of_a_draining_worker_can_be_registered_again(start: Start) -> None:
    engine = await start("m")
    async with control_plane(engine.url) as plane:
        await plane.ready(1)
        former = plane.worker(engine.url)
        await plane.ask("DELETE", f"/workers/{former.id}")
        assert former.status is Status.DRAINING
        status, answer = await plane.ask("POST", "/workers", json={"url": engine.url})
        assert status == 202
        await plane.ready(1)
        assert plane.worker(engine.url).id == answer["worker_id"] != former.id
        assert len(plane.registry) == 2


async def test_given_models_hide_those_of_the_engine(start: Start) -> None:
    engine = await start("m")
    async with control_plane() as plane:
        body = {"url": engine.url, "models": [{"id": "custom", "aliases": ["nick"]}]}
        await plane.ask("POST", "/workers", json=body)
        await plane.ready(1)
        assert plane.registry.find("m") is None
        assert plane.registry.resolve("nick") == "custom"
        entry = plane.registry.find("nick")
        assert entry is not None
        assert entry.model == "custom"


async def test_provider_with_a_key_lists_its_models(start: Start) -> None:
    provider = await start("gpt-4o", "grok-1", runtime="other")
    async with control_plane(api_key="sk") as plane:
        body = {"url": provider.url, "runtime_type": "external", "api_key": "pk"}
        await plane.ask("POST", "/workers", json=body, headers={"Authorization": "Bearer sk"})
        await plane.ready(1)
        worker = plane.worker(provider.url)
        assert [(card.id, card.provider) for card in worker.cards] == [
            ("gpt-4o", "openai"),
            ("grok-1", "xai"),
        ]
        assert provider.paths() == ["/v1/models"]
        assert provider.keys("/v1/models") == ["Bearer pk"]


async def test_provider_without_a_key_takes_any_model(start: Start) -> None:
    provider = await start("gpt-4o", runtime="other")
    async with control_plane(provider.url, backend="openai", api_key="sk", aliases={"al": "real"}) as plane:
        await plane.ready(1)
        assert provider.seen == []
        entry = plane.registry.find("al")
        assert entry is not None
        assert (entry.model, len(entry.ready)) == ("real", 1)
