"""The admin and public routes: exact answers, methods, headers every answer carries."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from smg.server.app import build_probe_app
from smg.workers.worker import Status
from tests.waiting import until
from tests.wire.control_plane import control_plane
from tests.wire.fake_engine import FakeEngine

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def engines() -> AsyncIterator[list[FakeEngine]]:
    engines = [await FakeEngine("m").start(), await FakeEngine("m").start()]
    yield engines
    for engine in engines:
        await engine.stop()


async def test_probes_without_workers() -> None:
    async with control_plane() as plane:
        assert await plane.get("/health") == (200, "OK")
        assert await plane.get("/liveness") == (200, "OK")
        reason = "insufficient healthy workers"
        assert await plane.get("/readiness") == (503, {"status": "not ready", "reason": reason})


async def test_readiness(engines: list[FakeEngine]) -> None:
    reasons: list[str | None] = [None]
    async with control_plane(engines[0].url, "http://127.0.0.1:1", reason=lambda: reasons[0]) as plane:
        await plane.ready(1)
        ready = {"status": "ready", "healthy_workers": 1, "total_workers": 2}
        assert await plane.get("/readiness") == (200, ready)
        reasons[0] = "draining"
        assert await plane.get("/readiness") == (503, {"status": "not ready", "reason": "draining"})
        assert await plane.get("/health") == (200, "OK")


async def test_add_show_list(engines: list[FakeEngine]) -> None:
    url = engines[0].url
    async with control_plane() as plane:
        empty = {"workers": [], "total": 0}
        empty["stats"] = {"prefill_count": 0, "decode_count": 0, "regular_count": 0}
        assert await plane.get("/workers") == (200, empty)
        body = {
            "url": url + "/",
            "labels": {"region": "eu"},
            "priority": 70,
            "cost": 2.5,
            "api_key": "wk-secret",
        }
        async with plane.http.post("/workers", json=body) as response:
            answer = await response.json()
            assert response.status == 202
            assert response.headers["Location"] == answer["location"]
        worker_id = answer["worker_id"]
        assert answer == {
            "status": "accepted",
            "worker_id": worker_id,
            "url": url,
            "location": f"/workers/{worker_id}",
            "message": "Worker addition queued for background processing",
        }
        assert re.fullmatch("[0-9a-f-]{36}", worker_id)
        await plane.ready(1)
        status, shown = await plane.get(f"/workers/{worker_id}")
        assert status == 200
        assert shown["labels"].pop("region") == "eu"
        assert "wk-secret" not in str(shown)
        for member in ("labels", "health"):
            shown.pop(member)
        assert shown == {
            "id": worker_id,
            "model_id": "m",
            "url": url,
            "models": [{"id": "m", "context_length": 8192}],
            "worker_type": "regular",
            "connection_mode": "http",
            "runtime_type": "sglang",
            "priority": 70,
            "cost": 2.5,
            "is_healthy": True,
            "status": "ready",
            "load": 0,
            "http2": False,
            "max_connection_attempts": 20,
        }
        status, listed = await plane.get("/workers")
        assert (status, listed["total"], listed["stats"]["regular_count"]) == (200, 1, 1)
        assert await plane.get(f"/workers/{worker_id.upper().replace('-', '')}") == await plane.get(
            f"/workers/{worker_id}"
        )


async def test_worker_twice(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url) as plane:
        again = {"url": engines[0].url + "/"}
        status, answer = await plane.ask("POST", "/workers", json=again)
        assert (status, answer["code"]) == (409, "WORKER_CREATE_IN_PROGRESS")
        await plane.ready(1)
        status, answer = await plane.ask("POST", "/workers", json=again)
        assert (status, answer["code"]) == (409, "WORKER_ALREADY_EXISTS")
        assert engines[0].url in answer["error"]


async def test_pending_worker_shows_its_job() -> None:
    async with control_plane() as plane:
        body = {"url": "http://127.0.0.1:1", "models": [{"id": "dead"}]}
        _, answer = await plane.ask("POST", "/workers", json=body)
        worker = plane.registry.get(answer["worker_id"])
        await until(lambda: (job := plane.registrar.find_job(worker.id)) and job.message)
        _, shown = await plane.get(answer["location"])
        assert (shown["status"], shown["is_healthy"]) == ("pending", False)
        job = shown["job_status"]
        assert (job["job_type"], job["status"], job["worker_url"]) == ("AddWorker", "processing", body["url"])
        assert isinstance(job["timestamp"], int)
        assert plane.registry.find("dead") is None
        assert (await plane.ask("DELETE", answer["location"]))[0] == 202
        assert (await plane.get(answer["location"]))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"{x",
        b"",
        b"[]",
        b'{"url": ""}',
        b'{"url": 5}',
        b'{"url": "127.0.0.1:9"}',
        b'{"url": "HTTP://h"}',
        b'{"url": "ftp://h"}',
        b'{"url": "http://h", "worker_type": "bad"}',
        b'{"url": "http://h", "priority": "x"}',
        b'{"url": "\xff"}',
        b"[" * 100_000,
        b'{"url": "grpc://h:1"}',
    ],
)
async def test_bad_specifications(body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with control_plane() as plane:
        async with plane.http.post("/workers", data=body, headers=headers) as response:
            answer = await response.json()
            assert (response.status, answer["code"]) == (400, "BAD_REQUEST")
            assert set(answer) == {"error", "code"}
            assert "x-smg-error-code" not in response.headers
        assert len(plane.registry) == 0


async def test_specification_must_be_declared_as_json() -> None:
    async with control_plane() as plane:
        status, answer = await plane.ask("POST", "/workers", data=b'{"url": "http://h"}')
        assert (status, answer["code"]) == (400, "BAD_REQUEST")
        status, _ = await plane.ask(
            "POST",
            "/workers",
            data=b'{"url": "http://127.0.0.1:1"}',
            headers={"Content-Type": "application/x+json"},
        )
        assert status == 202


async def test_body_above_the_limit() -> None:
    headers = {"Content-Type": "application/json"}
    async with control_plane() as plane:
        body = io.BytesIO(b" " * (2 << 20))
        status, answer = await plane.ask("POST", "/workers", data=body, headers=headers)
        assert (status, answer["error"]["code"]) == (413, "request_body_too_large")


@pytest.mark.parametrize("method", ["GET", "PATCH", "PUT", "DELETE"])
async def test_ids(method: str) -> None:
    body = {"url": "http://h"} if method == "PUT" else {}
    async with control_plane() as plane:
        not_found = {"error": f"Worker {NOBODY} not found", "code": "WORKER_NOT_FOUND"}
        assert await plane.ask(method, f"/workers/{NOBODY}", json=body) == (404, not_found)
        status, answer = await plane.ask(method, "/workers/zzz", json=body)
        assert (status, answer["code"]) == (400, "BAD_REQUEST")


async def test_patch(engines: list[FakeEngine]) -> None:
    async with control_plane() as plane:
        _, added = await plane.ask("POST", "/workers", json={"url": engines[0].url, "labels": {"a": "1"}})
        await plane.ready(1)
        path = added["location"]
        change = {
            "priority": 75,
            "labels": {"b": "2"},
            "api_key": "new",
            "unknown": 1,
            "health": {"timeout_secs": 1},
        }
        accepted = {
            "status": "accepted",
            "worker_id": added["worker_id"],
            "message": "Worker update queued for background processing",
        }
        assert await plane.ask("PATCH", path, json=change) == (202, accepted)
        _, shown = await plane.get(path)
        assert (shown["priority"], shown["cost"]) == (75, 1.0)
        assert (shown["labels"]["a"], shown["labels"]["b"]) == ("1", "2")
        assert (shown["health"]["timeout_secs"], shown["health"]["failure_threshold"]) == (1, 3)
        assert plane.worker(engines[0].url).api_key == "new"
        for bad in ({"priority": "x"}, {"labels": {"a": 1}}, {"api_key": "a\nb"}):
            assert (await plane.ask("PATCH", path, json=bad))[0] == 400


async def test_put(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url) as plane:
        await plane.ready(1)
        worker = plane.worker(engines[0].url)
        path = f"/workers/{worker.id}"
        body = {"url": worker.url + "/", "priority": 1, "models": [{"id": "n", "aliases": ["k"]}]}
        assert (await plane.ask("PUT", path, json=body))[0] == 202
        assert (worker.priority, worker.models) == (1, ("n",))
        assert plane.registry.resolve("k") == "n"
        for url in (engines[1].url, "nonsense"):
            status, answer = await plane.ask("PUT", path, json={"url": url})
            assert (status, answer["code"]) == (400, "BAD_REQUEST")


async def test_delete_drains_first(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url) as plane:
        await plane.ready(1)
        worker = plane.worker(engines[0].url)
        path = f"/workers/{worker.id}"
        accepted = {
            "status": "accepted",
            "worker_id": worker.id,
            "message": "Worker removal queued for background processing",
        }
        assert await plane.ask("DELETE", path) == (202, accepted)
        assert await plane.ask("DELETE", path) == (202, accepted)
        _, shown = await plane.get(path)
        assert (shown["status"], shown["is_healthy"]) == ("draining", False)
        assert shown["job_status"]["job_type"] == "RemoveWorker"
        assert worker.status is Status.DRAINING
        entry = plane.registry.find("m")
        assert entry is not None
        assert entry.ready == ()
        assert await plane.get("/v1/models") == (503, "No models available")


async def test_flush_cache(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url, engines[1].url, api_key="sk") as plane:
        await plane.ready(2)
        headers = {"Authorization": "Bearer sk"}
        expected: dict[str, Any] = {
            "status": "success",
            "message": "Cache flush succeeded on all 2 workers",
            "workers_flushed": 2,
            "total_http_workers": 2,
            "total_grpc_workers": 0,
            "total_zmq_workers_skipped": 0,
            "total_workers": 2,
        }
        assert await plane.ask("POST", "/flush_cache", headers=headers) == (200, expected)
        assert engines[0].keys("/flush_cache") == ["Bearer sk"]
        engines[0].answers["/flush_cache"] = 500
        status, answer = await plane.ask("POST", "/flush_cache", headers=headers)
        assert (status, answer["status"], answer["workers_flushed"]) == (206, "partial_success", 1)
        assert answer["successful"] == [engines[1].url]
        assert answer["failed"] == [{"worker": engines[0].url, "error": "the worker answered 500"}]


async def test_flush_cache_without_workers() -> None:
    async with control_plane() as plane:
        status, answer = await plane.ask("POST", "/flush_cache")
        assert (status, answer["workers_flushed"], answer["total_workers"]) == (200, 0, 0)


async def test_profile(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url, engines[1].url) as plane:
        await plane.ready(2)
        assert (await plane.ask("POST", "/start_profile"))[0] == 200
        assert (await plane.ask("POST", "/stop_profile", json={"url": engines[0].url + "/"}))[0] == 200
        assert [e.paths().count("/start_profile") for e in engines] == [1, 1]
        assert [e.paths().count("/stop_profile") for e in engines] == [1, 0]
        status, answer = await plane.ask("POST", "/start_profile", json={"url": "http://nope:1"})
        assert (status, answer["status"], answer["workers_profiled"]) == (404, "error", 0)
        status, text = await plane.ask("POST", "/start_profile", data=b"{}")
        assert (status, type(text)) == (415, str)
        headers = {"Content-Type": "application/json"}
        assert (await plane.ask("POST", "/start_profile", data=b"{", headers=headers))[0] == 400


async def test_small_admin_routes() -> None:
    async with control_plane() as plane:
        status, loads = await plane.get("/get_loads")
        assert status == 200
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", loads.pop("timestamp"))
        assert loads == {"version": "smg-1.2.3", "dp_rank_count": 0, "loads": []}
        assert await plane.get("/v1/tokenizers") == (200, {"tokenizers": []})


@pytest.mark.parametrize(
    ("asked", "status", "answer"),
    [
        (
            {"text": "<think>a</think>b", "reasoning_parser": "qwen3"},
            200,
            {"normal_text": "b", "reasoning_text": "a", "success": True},
        ),
        (
            {"text": "b", "reasoning_parser": "nope"},
            400,
            {"error": "Unknown reasoning parser: nope", "success": False},
        ),
        (
            {"text": "<|open|>think<|sep|>a<|close|>think<|sep|>b", "reasoning_parser": "kimi_k3"},
            200,
            {"normal_text": "b", "reasoning_text": "a", "success": True},
        ),
        ({"text": "b"}, 422, None),
        ({"text": 5, "reasoning_parser": "qwen3"}, 422, None),
    ],
)
async def test_parsing_of_reasoning(asked: dict[str, Any], status: int, answer: Any) -> None:
    async with control_plane() as plane:
        found, said = await plane.ask("POST", "/parse/reasoning", json=asked)
        assert found == status
        assert answer is None or said == answer


WEATHER = {"name": "get_weather", "parameters": {"properties": {"days": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": WEATHER}]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
XML_CALL = "<tool_call><function=get_weather><parameter=days>2</parameter></function></tool_call>"


def calls(*arguments: str) -> list[Any]:
    return [{"function": {"name": "get_weather", "arguments": one}} for one in arguments]


@pytest.mark.parametrize(
    ("text", "parser", "tools", "rest", "found"),
    [
        ("Ok. " + CALL, "qwen", TOOLS, "Ok. ", calls('{"city":"Paris"}')),
        (CALL + CALL + " after", "qwen", [], "", calls('{"city":"Paris"}', '{"city":"Paris"}')),
        ("no call", "qwen", TOOLS, "no call", []),
        ("", "qwen", [], "", []),
        (CALL, "json", TOOLS, "<tool_call>\n\n</tool_call>", calls('{"city":"Paris"}')),
        (CALL, "passthrough", TOOLS, CALL, []),
        (XML_CALL, "qwen_xml", TOOLS, "", calls('{"days":"2"}')),
        (XML_CALL, "qwen_xml", [], "", calls('{"days":2}')),
    ],
)
async def test_parsing_of_function_calls(text: str, parser: str, tools: Any, rest: str, found: Any) -> None:
    asked = {"text": text, "tool_call_parser": parser, "tools": tools}
    async with control_plane() as plane:
        expected = {"remaining_text": rest, "tool_calls": found, "success": True}
        assert await plane.ask("POST", "/parse/function_call", json=asked) == (200, expected)


@pytest.mark.parametrize("parser", ["nope", "", "JSON", "glm4", "lfm2.5", "seed_oss", "hf", "xlam"])
async def test_parsers_of_function_calls_that_are_not_there(parser: str) -> None:
    asked = {"text": "x", "tool_call_parser": parser, "tools": []}
    async with control_plane() as plane:
        expected = {"error": f"Unknown tool parser: {parser}", "success": False}
        assert await plane.ask("POST", "/parse/function_call", json=asked) == (400, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"text": None},
        {"text": 5},
        {"tool_call_parser": None},
        {"tools": None},
        {"tools": {}},
        {"tools": ["a"]},
        {"tools": [{}]},
        {"tools": [{"type": "function"}]},
        {"tools": [{"function": WEATHER}]},
        {"tools": [{"type": "function", "function": {}}]},
        {"tools": [{"type": "function", "function": WEATHER | {"strict": "x"}}]},
        {"tools": [{"type": "function", "function": WEATHER | {"description": 5}}]},
    ],
)
async def test_function_call_bodies_of_wrong_types(changes: dict[str, Any]) -> None:
    asked = {"text": "x", "tool_call_parser": "json", "tools": TOOLS}
    async with control_plane() as plane:
        assert (await plane.ask("POST", "/parse/function_call", json=asked))[0] == 200
        assert (await plane.ask("POST", "/parse/function_call", json=asked | changes))[0] == 422
        del asked[next(iter(changes))]
        assert (await plane.ask("POST", "/parse/function_call", json=asked))[0] == 422


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "a"}},
        {"type": "other", "function": {"name": "a", "parameters": 5, "strict": None, "more": 1}, "more": 1},
    ],
)
async def test_tools_that_say_little_or_more(tool: Any) -> None:
    asked = {"text": "x", "tool_call_parser": "qwen_xml", "tools": [tool], "more": 1}
    async with control_plane() as plane:
        expected = {"remaining_text": "x", "tool_calls": [], "success": True}
        assert await plane.ask("POST", "/parse/function_call", json=asked) == (200, expected)


async def test_large_texts_are_parsed_beside_other_work() -> None:
    """A mebibyte of what costs most; other routes answer meanwhile."""
    asked = {"text": "[{" * 500_000, "tool_call_parser": "json", "tools": []}
    async with control_plane() as plane:
        parsing = asyncio.create_task(plane.ask("POST", "/parse/function_call", json=asked))
        answered = 0
        while not parsing.done():
            assert (await plane.get("/v1/tokenizers"))[0] == 200
            answered += 1
        status, answer = await parsing
        assert (status, answer["remaining_text"]) == (200, asked["text"])
        assert answered > 1


@pytest.mark.parametrize("route", ["reasoning", "function_call"])
@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", "{}", 415),
        ("application/json", "{", 400),
        ("application/json", "", 400),
        ("application/json", '{"text": "\\ud800"}', 400),
        ("application/json", '{"x": ' + "[" * 100_000, 400),
        ("application/json", "[1, 2]", 422),
    ],
)
async def test_bodies_that_cannot_be_parsed(route: str, kind: str, body: str, status: int) -> None:
    async with control_plane() as plane:
        found, _ = await plane.ask("POST", f"/parse/{route}", data=body, headers={"Content-Type": kind})
        assert found == status


@pytest.mark.parametrize("path", ["/get_model_info", "/get_server_info", "/health_generate"])
async def test_questions_without_engine(path: str) -> None:
    async with control_plane("http://127.0.0.1:1", backend="openai") as plane:
        await plane.ready(1)
        async with plane.http.get(path) as response:
            assert response.status == 503
            assert response.headers["X-SMG-Error-Code"] == "no_workers"
            error = (await response.json())["error"]
            assert (error["type"], error["code"], error["param"]) == (
                "Service Unavailable",
                "no_workers",
                None,
            )


async def test_questions_are_passed_on(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url) as plane:
        await plane.ready(1)
        _, info = await plane.get("/get_model_info")
        assert (info["model_path"], info["is_generation"]) == ("m", True)
        _, info = await plane.get("/get_server_info")
        assert info == {"served_model_name": "m", "model_path": "m", "tp_size": 1}
        engines[0].answers["/get_model_info"] = 404
        assert (await plane.get("/get_model_info"))[1]["model_path"] == "m"
        engines[0].answers["/health_generate"] = 503
        assert (await plane.get("/health_generate"))[0] == 503


async def test_question_moves_on_from_a_dead_engine(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url, engines[1].url) as plane:
        await plane.ready(2)
        await engines[0].stop()
        assert (await plane.get("/get_model_info"))[0] == 200
        await engines[1].stop()
        status, answer = await plane.get("/get_model_info")
        assert (status, answer["error"]["code"]) == (502, "call_upstream_connection_failed")
        assert "127.0.0.1" not in str(answer)


async def test_engine_metrics(engines: list[FakeEngine]) -> None:
    engines[0].answers["/metrics"] = b"# HELP x y\n# TYPE x gauge\nx 1\n"
    async with control_plane(engines[0].url, engines[1].url) as plane:
        await plane.ready(2)
        text = f'# TYPE x gauge\nx{{worker_addr="{engines[0].url}"}} 1\n'
        assert await plane.get("/engine_metrics") == (200, text)
        engines[0].answers["/metrics"] = 500
        assert await plane.get("/engine_metrics") == (503, "No available workers")


async def test_unknown_and_wrong() -> None:
    async with control_plane() as plane:
        async with plane.http.get("/nope?key=secret") as response:
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (404, "unknown_url")
            assert error["message"] == "Invalid URL (GET /nope)"
            assert response.headers["X-SMG-Error-Code"] == "unknown_url"
        for method, path, allow in (
            ("GET", "/v1/chat/completions", "POST"),
            ("DELETE", "/generate", "POST"),
            ("OPTIONS", "/generate", "POST"),
            ("POST", "/v1/models", "GET, HEAD"),
            ("POST", "/health", "GET, HEAD"),
            ("PUT", "/workers", "GET, HEAD, POST"),
        ):
            async with plane.http.request(method, path) as response:
                assert response.status == 405
                assert response.headers["Allow"] == allow
                assert (await response.json())["error"]["code"] == "method_not_allowed"
        async with plane.http.get("/%ff%0a" + "x" * 5000) as response:
            assert response.status == 404
            assert len(await response.read()) < 2000


async def test_head_is_like_get(engines: list[FakeEngine]) -> None:
    async with control_plane(engines[0].url) as plane:
        await plane.ready(1)
        for path in ("/health", "/readiness", "/v1/models"):
            async with plane.http.head(path) as head, plane.http.get(path) as get:
                assert head.status == get.status == 200
                assert head.headers["Content-Length"] == get.headers["Content-Length"]
                assert await head.read() == b""


async def test_request_id_on_every_answer() -> None:
    async with control_plane(api_key="sk") as plane:
        for method, path in (("GET", "/health"), ("GET", "/workers"), ("GET", "/x"), ("PUT", "/health")):
            async with plane.http.request(method, path) as response:
                assert re.fullmatch("req-[A-Za-z0-9]{24}", response.headers["x-request-id"])
            async with plane.http.request(method, path, headers={"X-Request-Id": "rid"}) as response:
                assert response.headers["x-request-id"] == "rid"
            async with plane.http.request(method, path, headers={"X-Request-Id": "ä b"}) as response:
                assert response.headers["x-request-id"].startswith("req-")
        async with plane.http.get("/generate") as response:
            assert response.headers["x-request-id"].startswith("gnt-")


async def test_bug_in_a_route_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        raise RuntimeError("secret detail")

    async with control_plane(serve=broken) as plane:
        status, answer = await plane.ask("POST", "/generate", json={})
        assert (status, answer["error"]["code"]) == (500, "internal_error")
        assert "secret" not in str(answer)
        assert "secret detail" in caplog.text


async def test_data_plane_without_a_server() -> None:
    async with control_plane() as plane:
        assert (await plane.ask("POST", "/generate", json={}))[0] == 501


async def test_cors() -> None:
    origin = {"Origin": "http://a.example"}
    async with control_plane() as plane, plane.http.get("/health", headers=origin) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
    async with control_plane(cors=("http://a.example",), api_key="sk") as plane:
        async with plane.http.get("/workers", headers=origin) as response:
            assert response.status == 401
            assert response.headers["Access-Control-Allow-Origin"] == "http://a.example"
        async with plane.http.get("/health", headers={"Origin": "http://b.example"}) as response:
            assert "Access-Control-Allow-Origin" not in response.headers
        asked = origin | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
        async with plane.http.options("/v1/chat/completions", headers=asked) as response:
            assert response.status == 200
            assert "POST" in response.headers["Access-Control-Allow-Methods"]
            assert response.headers["Access-Control-Allow-Headers"] == "x-a"
            assert response.headers["Access-Control-Allow-Origin"] == "http://a.example"


async def test_health_check_port_serves_probes_only() -> None:
    expected = {"/health": 200, "/liveness": 200, "/readiness": 503, "/workers": 404, "/v1/models": 404}
    async with (
        control_plane(api_key="sk") as plane,
        TestClient(TestServer(build_probe_app(plane.deps))) as probes,
    ):
        for path, status in expected.items():
            async with probes.get(path) as response:
                assert response.status == status
                assert "x-request-id" in response.headers
