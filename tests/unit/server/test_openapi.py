"""The OpenAPI document: well formed, complete, and the same as what checks the requests."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from smg import __version__, errors
from smg.api.chat_request import CHAT
from smg.api.completions import COMPLETIONS
from smg.api.decisions_schema import Request as DecisionsRequest
from smg.api.generate import GENERATE
from smg.api.surfaces import SURFACES
from smg.config.model import Config
from smg.server import compose, compose_admission
from smg.server.app import build_app
from smg.server.openapi import make_document
from smg.telemetry.metrics import Metrics
from tests.wire.control_plane import control_plane
from tests.wire.live_gateway import running
from tests.wire.raw_client import get
from tests.wire.scripted_worker import ScriptedWorker

METHODS = {"get", "post", "put", "patch", "delete"}
# Of requests that no operation has, and of workers that answer with an error of another shape.
OF_NO_OPERATION = {"unknown_url", "method_not_allowed", "upstream_decisions_error"}
DOCUMENT = msgspec.json.decode(msgspec.json.encode(make_document(__version__)))
OPERATIONS = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a value."""
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from walk(one)
    elif isinstance(value, list):
        for one in value:
            yield from walk(one)


def found(reference: str) -> Any:
    place: Any = DOCUMENT
    assert reference.startswith("#/")
    for name in reference[2:].split("/"):
        place = place[name]
    return place


def test_the_document_is_of_its_kind() -> None:
    assert DOCUMENT.keys() == {"openapi", "info", "paths", "components"}
    assert re.fullmatch(r"3\.1\.\d", DOCUMENT["openapi"])
    assert DOCUMENT["info"].keys() >= {"title", "version"}


def test_every_reference_leads_somewhere() -> None:
    references = [one["$ref"] for one in walk(DOCUMENT) if isinstance(one.get("$ref"), str)]
    references += [
        reference
        for one in walk(DOCUMENT)
        if isinstance(one.get("discriminator"), dict)
        for reference in one["discriminator"]["mapping"].values()
    ]
    assert len(references) > 100
    assert all(isinstance(found(reference), dict) for reference in references)


def test_every_component_is_used() -> None:
    used = {one["$ref"] for one in walk(DOCUMENT) if isinstance(one.get("$ref"), str)}
    for kind in ("schemas", "headers", "parameters"):
        assert {f"#/components/{kind}/{name}" for name in DOCUMENT["components"][kind]} <= used


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_an_operation_is_whole(path: str, method: str, operation: dict[str, Any]) -> None:
    assert path.startswith("/")
    assert method in METHODS
    assert operation["summary"]
    for status, response in operation["responses"].items():
        assert re.fullmatch(r"101|[2-5]\d\d|default", status)
        assert response["description"]
        assert all(one.keys() == {"schema"} for one in response.get("content", {}).values())
    assert operation["responses"]
    parameters = [found(one["$ref"]) if "$ref" in one else one for one in operation.get("parameters", ())]
    assert {one["name"] for one in parameters if one["in"] == "path"} == set(re.findall(r"\{(\w+)\}", path))
    if "requestBody" in operation:
        assert operation["requestBody"]["content"]
    assert all(one in ({}, {"key": []}) for one in operation["security"])


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))


def test_every_surface_is_listed_with_its_errors() -> None:
    for surface in SURFACES:
        operation = DOCUMENT["paths"][surface.path]["post"]
        assert {"200", "400", "401", "404", "413", "502", "503", "504"} <= operation["responses"].keys()
        kinds = operation["requestBody"]["content"].keys()
        assert kinds == {"multipart/form-data" if surface.takes_form else "application/json"}
        missing = operation["responses"]["404"]
        assert missing["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorEnvelope")
        assert "X-SMG-Error-Code" in missing["headers"]
    refused = DOCUMENT["paths"]["/v1/chat/completions"]["post"]["responses"]["400"]
    shapes = refused["content"]["application/json"]["schema"]["anyOf"]
    assert {one["$ref"].rpartition("/")[2] for one in shapes} == {"RequestError", "ErrorEnvelope"}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("ChatRequest", CHAT.slots),
        ("CompletionRequest", COMPLETIONS.slots),
        ("GenerateRequest", GENERATE.slots),
        ("DecisionsRequest", DecisionsRequest.__struct_fields__),
    ],
)
def test_the_schemas_are_those_that_check(name: str, fields: Any) -> None:
    assert DOCUMENT["components"]["schemas"][name]["properties"].keys() == set(fields)


def test_every_error_is_told_of() -> None:
    told = " ".join(
        response["description"]
        for _, _, operation in OPERATIONS
        for response in operation["responses"].values()
    )
    codes = {str(error.code) for error in errors.table()}
    assert {code for code in codes if f"`{code}`" not in told} == OF_NO_OPERATION


async def test_every_route_of_the_application_is_in_it() -> None:
    async with control_plane() as plane:
        paths = tuple(surface.path for surface in SURFACES)
        deps = dataclasses.replace(plane.deps, data_plane_paths=paths)
        router = compose.router(Config(), deps.registry)
        guards = compose_admission.guards(Config(), deps.registry, asyncio.get_running_loop())
        metrics = Metrics()
        realtime = compose.realtime(Config(), deps, router, guards, metrics)
        calls = compose.realtime_calls(deps, realtime)
        app = build_app(deps, realtime, calls, compose.console(deps, metrics, guards))
        registered = [(route.method, route.resource) for route in app.router.routes()]
    # A GET route answers HEAD besides, which is not listed by itself.
    routes = {(method.lower(), one.canonical) for method, one in registered if one and method != "HEAD"}
    assert routes == {(method, path) for path, method, _ in OPERATIONS}


async def test_the_gateway_serves_it() -> None:
    async with running(ScriptedWorker()) as live:
        answer = await live.ask(get("/openapi.json"), "GET")
    assert answer.status == 200
    assert answer.json() == DOCUMENT


async def test_it_needs_no_key_and_is_made_once() -> None:
    async with control_plane(api_key="sk", admins=("k1:On call:admin:secret",)) as plane:
        async with plane.http.get("/openapi.json") as response:
            assert response.status == 200
            assert response.content_type == "application/json"
            first = await response.read()
        async with plane.http.get("/openapi.json") as response:
            assert await response.read() == first
