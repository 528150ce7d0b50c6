"""Who may use admin routes, over real sockets; the rules of the data plane are in unit/admission."""

import io
from typing import Any

import pytest

from tests.wire.control_plane import control_plane

ADMIN_ROUTES = [
    ("GET", "/workers"),
    ("POST", "/workers"),
    ("GET", "/workers/00000000-0000-0000-0000-000000000000"),
    ("DELETE", "/workers/00000000-0000-0000-0000-000000000000"),
    ("POST", "/flush_cache"),
    ("GET", "/get_loads"),
    ("GET", "/v1/tokenizers"),
    ("POST", "/v1/tokenizers"),
    ("GET", "/v1/tokenizers/x"),
    ("DELETE", "/v1/tokenizers/x"),
    ("GET", "/wasm"),
    ("POST", "/wasm"),
    ("DELETE", "/wasm/x"),
    ("POST", "/heap_profile"),
    ("POST", "/parse/reasoning"),
    ("POST", "/start_profile"),
    ("POST", "/stop_profile"),
]
PUBLIC_ROUTES = ["/health", "/liveness", "/readiness", "/v1/models", "/get_model_info", "/engine_metrics"]
ADMINS = ("k1:Service:admin:adm:with:colons", "k2:Reader:user:usr")
TENANTS = (("red", "rk"),)


async def status_of(plane: Any, route: tuple[str, str], key: str | None) -> int:
    headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
    status, _ = await plane.ask(*route, headers=headers)
    return int(status)


@pytest.mark.parametrize(
    ("options", "opening", "refused"),
    [
        ({}, [None, "x"], []),
        ({"api_key": "sk"}, ["sk"], [None, "x", "skk"]),
        ({"api_key": "sk", "tenants": TENANTS}, ["sk"], [None, "rk"]),
        ({"tenants": TENANTS}, [], [None, "rk", "x"]),
        ({"admins": ADMINS}, ["adm:with:colons"], [None, "x"]),
        ({"admins": ADMINS, "api_key": "sk", "tenants": TENANTS}, ["adm:with:colons"], [None, "sk", "rk"]),
    ],
    ids=["open", "shared", "shared-tenant", "tenant", "control", "all"],
)
async def test_who_opens_admin_routes(options: Any, opening: list[Any], refused: list[Any]) -> None:
    async with control_plane(**options) as plane:
        for route in ADMIN_ROUTES:
            for key in opening:
                assert await status_of(plane, route, key) not in (401, 403), (route, key)
            for key in refused:
                assert await status_of(plane, route, key) == 401, (route, key)
        for path in PUBLIC_ROUTES:
            assert await status_of(plane, ("GET", path), None) not in (401, 403)


async def test_role_user_may_not() -> None:
    async with control_plane(admins=ADMINS) as plane:
        for method, path in ADMIN_ROUTES:
            status, text = await plane.ask(method, path, headers={"Authorization": "bearer  usr "})
            assert (status, text) == (403, "Admin role required for this control plane operation")


async def test_texts_of_control_plane_refusals() -> None:
    async with control_plane(admins=ADMINS) as plane:
        for headers, text in (
            ({}, "Missing or invalid Authorization header"),
            ({"Authorization": "Basic adm"}, "Missing or invalid Authorization header"),
            ({"Authorization": "Bearer x"}, "Invalid authentication token"),
        ):
            async with plane.http.get("/workers", headers=headers) as response:
                assert (response.status, await response.text()) == (401, text)
                assert response.headers["WWW-Authenticate"] == 'Bearer realm="control-plane"'
                assert "x-request-id" in response.headers


async def test_refusal_of_the_shared_key_has_no_body() -> None:
    async with control_plane(api_key="sk") as plane:
        async with plane.http.get("/workers") as response:
            assert await response.read() == b""
            assert response.headers["WWW-Authenticate"] == 'Bearer realm="data-plane"'
            assert "x-smg-error-code" not in response.headers
        async with plane.http.get("/workers", headers={"Authorization": "Bearer ä"}) as response:
            assert response.headers["WWW-Authenticate"] == 'Bearer realm="data-plane", error="invalid_token"'


async def test_first_header_counts() -> None:
    async with control_plane(api_key="sk") as plane:
        for first, second, status in (("sk", "x", 200), ("x", "sk", 401)):
            headers = [("Authorization", f"Bearer {first}"), ("Authorization", f"Bearer {second}")]
            assert (await plane.ask("GET", "/workers", headers=headers))[0] == status


async def test_key_with_utf8() -> None:
    async with control_plane(api_key="schlüssel") as plane:
        assert await status_of(plane, ("GET", "/workers"), "schlüssel") == 200


async def test_body_is_not_read_before_the_key() -> None:
    async with control_plane(api_key="sk") as plane:
        status, _ = await plane.ask("POST", "/workers", data=io.BytesIO(b" " * (2 << 20)))
        assert status == 401
