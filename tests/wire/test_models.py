"""`GET /v1/models` and `GET /v1/models/{id}`, self-hosted and of providers."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.wire.control_plane import control_plane
from tests.wire.fake_engine import FakeEngine


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = await FakeEngine("org/m", "lora").start()
    yield engine
    await engine.stop()


@pytest.fixture
async def provider() -> AsyncIterator[FakeEngine]:
    provider = await FakeEngine("gpt-x", runtime="other").start()
    yield provider
    await provider.stop()


def hosted(model: str) -> dict[str, object]:
    return {"id": model, "object": "model", "created": 0, "owned_by": "self_hosted"}


async def test_every_model_once_under_its_own_name(engine: FakeEngine) -> None:
    other = await FakeEngine("lora", "n").start()
    async with control_plane(engine.url, other.url, aliases={"al": "lora"}) as plane:
        await plane.ready(2)
        expected = {"object": "list", "data": [hosted("org/m"), hosted("lora"), hosted("n")]}
        assert await plane.get("/v1/models") == (200, expected)
    await other.stop()


async def test_one_model(engine: FakeEngine) -> None:
    async with control_plane(engine.url, aliases={"al": "lora"}) as plane:
        await plane.ready(1)
        assert await plane.get("/v1/models/org/m") == (200, hosted("org/m"))
        assert await plane.get("/v1/models/org%2Fm") == (200, hosted("org/m"))
        assert await plane.get("/v1/models/al") == (200, hosted("lora"))
        for name in ("nope", "org", "%ff"):
            status, answer = await plane.get(f"/v1/models/{name}")
            assert status == 404
            assert answer["error"]["code"] == "model_not_found"


async def test_nothing_served() -> None:
    async with control_plane() as plane:
        assert await plane.get("/v1/models") == (503, "No models available")
        assert (await plane.get("/v1/models/m"))[0] == 404


async def test_unknown_key_without_provider_is_no_matter(engine: FakeEngine) -> None:
    async with control_plane(engine.url, api_key="sk") as plane:
        await plane.ready(1)
        engine.seen.clear()
        for headers in (
            {"Authorization": "Bearer own"},
            {"x-api-key": "own"},
            {"Authorization": "Bearer sk"},
        ):
            status, answer = await plane.ask("GET", "/v1/models", headers=headers)
            assert (status, len(answer["data"])) == (200, 2)
        assert engine.seen == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer own"},
        {"x-api-key": "own"},
        {"Authorization": "Bearer sk", "x-api-key": "own"},
    ],
)
async def test_own_key_asks_the_provider(provider: FakeEngine, headers: dict[str, str]) -> None:
    async with control_plane(provider.url, backend="openai", api_key="sk") as plane:
        await plane.ready(1)
        status, answer = await plane.ask("GET", "/v1/models", headers=headers)
        listed = {"id": "gpt-x", "object": "model", "created": 0, "owned_by": "openai"}
        assert (status, answer) == (200, {"object": "list", "data": [listed]})
        assert provider.keys("/v1/models") == ["Bearer own"]
        assert (await plane.ask("GET", "/v1/models/gpt-x", headers=headers))[1] == listed


@pytest.mark.parametrize("key", ["sk", "rk", "adm"])
async def test_gateway_keys_never_reach_a_provider(provider: FakeEngine, key: str) -> None:
    options = {"tenants": (("red", "rk"),), "admins": ("i:n:admin:adm",)}
    async with control_plane(provider.url, backend="openai", api_key="sk", **options) as plane:
        await plane.ready(1)
        for headers in ({"Authorization": f"Bearer {key}"}, {"x-api-key": key}, {}):
            assert await plane.ask("GET", "/v1/models", headers=headers) == (503, "No models available")
        assert provider.seen == []


@pytest.mark.parametrize(
    "answer",
    [401, {"data": []}, {"data": "x"}, [], b"{", {"data": [{"id": 5}, None]}],
    ids=["status", "empty", "text", "list", "broken", "entries"],
)
async def test_provider_without_a_list_falls_back(
    engine: FakeEngine, provider: FakeEngine, answer: object
) -> None:
    provider.answers["/v1/models"] = answer
    async with control_plane(engine.url) as plane:
        await plane.ask("POST", "/workers", json={"url": provider.url, "runtime": "external"})
        await plane.ready(2)
        status, listed = await plane.ask("GET", "/v1/models", headers={"Authorization": "Bearer own"})
        assert (status, listed["data"]) == (200, [hosted("org/m"), hosted("lora")])
        assert provider.keys("/v1/models") == ["Bearer own"]


async def test_second_provider_answers(provider: FakeEngine) -> None:
    empty = await FakeEngine(runtime="other").start()
    async with control_plane(empty.url, provider.url, backend="openai") as plane:
        await plane.ready(2)
        status, listed = await plane.ask("GET", "/v1/models", headers={"Authorization": "Bearer own"})
        assert (status, listed["data"][0]["id"]) == (200, "gpt-x")
    await empty.stop()


async def test_anthropic_is_asked_in_its_own_way(provider: FakeEngine) -> None:
    provider.answers["/v1/models"] = {"data": [{"type": "model", "id": "claude-x"}]}
    async with control_plane() as plane:
        body = {"url": provider.url, "runtime": "external", "provider": "anthropic"}
        await plane.ask("POST", "/workers", json=body)
        await plane.ready(1)
        _, listed = await plane.ask("GET", "/v1/models", headers={"x-api-key": "own"})
        assert listed["data"][0]["owned_by"] == "anthropic"
        assert provider.seen[0].headers["x-api-key"] == "own"
        assert provider.seen[0].headers["anthropic-version"] == "2023-06-01"


async def test_key_that_can_not_be_sent(provider: FakeEngine) -> None:
    async with control_plane(provider.url, backend="openai") as plane:
        await plane.ready(1)
        status, _ = await plane.ask("GET", "/v1/models", headers={"Authorization": "Bearer ä"})
        assert status == 503
        assert provider.seen == []


async def test_redirecting_provider_does_not_get_the_key_sent_on(
    engine: FakeEngine, provider: FakeEngine
) -> None:
    target = engine.url + "/v1/models"
    provider.answers["/v1/models"] = lambda request: web.Response(status=307, headers={"Location": target})
    async with control_plane(provider.url, backend="openai") as plane:
        await plane.ready(1)
        assert (await plane.ask("GET", "/v1/models", headers={"x-api-key": "own"}))[0] == 503
        assert engine.seen == []
