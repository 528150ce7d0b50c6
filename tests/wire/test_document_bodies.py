"""Bodies made from the schemas of /openapi.json, right and wrong ones: the gateway itself never fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smg.api.surfaces import SURFACES, Surface
from smg.config.specs import ModelAlias
from smg.server.openapi import make_document
from tests.wire.conftest import Start
from tests.wire.raw_client import head, post
from tests.wire.scripted_worker import ScriptedWorker

DOCUMENT = make_document("1")
EXAMPLES = {"chat": 40, "completions": 25, "generate": 20, "decisions": 25, "transcriptions": 15}
# Of the endpoints that read little of the body.
FEW_EXAMPLES = 8
ALIASES = ("kimi-k3", "kimi-k2", "minimax-m3", "glm-5.3", "glm-4.7", "deepseek-v4-pro", "deepseek-v4.1-flash")
MODELS = st.sampled_from(("m", *ALIASES, "nobody"))
BOUNDARY = "frontier"

Strategy = st.SearchStrategy[Any]

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


class Bodies:
    """Strategies of values, each as a schema says or, one time in `odds`, anything else."""

    def __init__(self, odds: int) -> None:
        self._odds = odds
        self._named: dict[str, Strategy] = {}

    def of(self, schema: dict[str, Any]) -> Strategy:
        if "$ref" in schema:
            return self._referred(schema["$ref"].rpartition("/")[2])
        if "allOf" in schema:
            first, second = schema["allOf"]
            needed = st.fixed_dictionaries(dict.fromkeys(second["required"], ANYTHING))
            return st.tuples(self.of(first), needed).map(lambda two: join(*two))
        if "anyOf" in schema:
            return st.one_of([self.of(one) for one in schema["anyOf"]])
        if "const" in schema or "enum" in schema:
            return self._or_else(st.sampled_from(schema.get("enum") or [schema["const"]]))
        return self._or_else(self._plain(schema))

    def _or_else(self, right: Strategy) -> Strategy:
        if not self._odds:
            return right
        return st.integers(1, self._odds).flatmap(lambda drawn: ANYTHING if drawn == 1 else right)

    def _referred(self, name: str) -> Strategy:
        if name not in self._named:
            self._named[name] = st.deferred(lambda: self.of(DOCUMENT["components"]["schemas"][name]))
        return self._named[name]

    def _plain(self, schema: dict[str, Any]) -> Strategy:
        low, high = schema.get("minimum"), schema.get("maximum")
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            sizes = {"min_size": schema.get("minItems", 0), "max_size": schema.get("maxItems", 3)}
            return st.lists(self.of(schema.get("items", {})), **sizes)
        if kind == "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=12)
        if kind == "integer":
            return st.integers(low, high)
        if kind == "number":
            above = schema.get("exclusiveMinimum")
            return st.floats(low if above is None else above, high, exclude_min=above is not None)
        return {"boolean": st.booleans(), "null": st.none()}.get(kind or "", ANYTHING)

    def _object(self, schema: dict[str, Any]) -> Strategy:
        properties = schema.get("properties")
        if properties is None:
            return st.dictionaries(
                st.text(max_size=5), self.of(schema.get("additionalProperties", {})), max_size=3
            )
        members = {name: MODELS if name == "model" else self.of(one) for name, one in properties.items()}
        required = set(schema.get("required", ())) | ({"model"} & members.keys())
        optional = [name for name in members if name not in required]
        # Few of the optional members at a time: together they break a rule nearly always.
        chosen = st.lists(st.sampled_from(optional), max_size=3, unique=True) if optional else st.just([])
        return chosen.flatmap(
            lambda some: st.fixed_dictionaries({one: members[one] for one in [*required, *some]})
        )


def join(first: Any, second: dict[str, Any]) -> Any:
    return {**first, **second} if isinstance(first, dict) else first


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def to_form(value: Any) -> bytes:
    fields = value.items() if isinstance(value, dict) else [("file", value)]
    parts = []
    for name, one in fields:
        file_name = '; filename="a.wav"' if name == "file" else ""
        for text in one if isinstance(one, list) else [one]:
            disposition = f'Content-Disposition: form-data; name="{name}"{file_name}'
            parts.append(f"--{BOUNDARY}\r\n{disposition}\r\n\r\n{text}\r\n")
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def damaged(body: bytes) -> Strategy:
    """The body with a piece cut out of it or put into it."""
    places = st.tuples(st.integers(0, len(body)), st.integers(0, 4), st.binary(max_size=4))
    return places.map(lambda drawn: body[: drawn[0]] + drawn[2] + body[drawn[0] + drawn[1] :])


def bodies_of(surface: Surface) -> Strategy:
    (content,) = DOCUMENT["paths"][surface.path]["post"]["requestBody"]["content"].values()
    write = to_form if surface.takes_form else to_json
    right, loose = (Bodies(odds).of(content["schema"]).map(write) for odds in (0, 12))
    return right | loose | loose.flatmap(damaged)


def draw(surface: Surface) -> list[bytes]:
    drawn: list[bytes] = []
    examples = EXAMPLES.get(surface.endpoint, FEW_EXAMPLES)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

    @settings(max_examples=examples, derandomize=True, database=None, suppress_health_check=checks)
    @given(bodies_of(surface))
    def collect(body: bytes) -> None:
        drawn.append(body)

    collect()
    return drawn


def form_post(body: bytes, target: str) -> bytes:
    kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    return head("POST", target, kind, f"Content-Length: {len(body)}") + body


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.path)
async def test_no_body_makes_the_gateway_fail(surface: Surface, gateway: Start) -> None:
    aliases = tuple(ModelAlias(name, "m") for name in ALIASES)
    live = await gateway(ScriptedWorker(), model_alias=aliases, disable_circuit_breaker=True)
    request = form_post if surface.takes_form else post
    for body in draw(surface):
        answer = await live.ask(request(body, target=surface.path))
        code = answer.get("x-smg-error-code")
        assert answer.status in (200, 400, 404, 422) or code == "invalid_decisions_response", body
    assert (await live.ask(post())).status == 200
    await live.settled()
