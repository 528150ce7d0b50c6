"""Values between tags, by the schema's types."""

from __future__ import annotations

from typing import Any

import pytest

from smg.text.tools.values import Schemas, as_json


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "string"}, "5", '"5"'),
        ({"type": "string"}, '{"a":1}', '"{\\"a\\":1}"'),
        ({"type": "string"}, '"q"', '"q"'),
        ({"type": "string"}, '"q" is', '"\\"q\\" is"'),
        ({"type": "string"}, "null", '"null"'),
        ({"type": "string"}, " sp ", '" sp "'),
        ({"type": "string"}, "", '""'),
        ({"type": "integer"}, " 5\n", "5"),
        ({"type": "integer"}, "5.0", "5.0"),
        ({"type": "integer"}, "abc", '"abc"'),
        ({"type": "integer"}, "123456789012345678901234567890", "123456789012345678901234567890"),
        ({"type": "number"}, "5.50", "5.50"),
        ({"type": "number"}, "NaN", '"NaN"'),
        ({"type": "boolean"}, "True", "true"),
        ({"type": "boolean"}, "yes", '"yes"'),
        ({"type": "object"}, '{"a": [1, 2]}', '{"a":[1,2]}'),
        ({"type": "object"}, "{'a': 1}", "\"{'a': 1}\""),
        ({"type": "null"}, "None", "null"),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["string", "null"]}, "5", '"5"'),
        ({"type": ["integer", "string"]}, "5", "5"),
        ({"type": ["integer", "string"]}, "-5", "-5"),
        ({"type": ["integer", "string"]}, "5.5", '"5.5"'),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, "5", '"5"'),
        ({"oneOf": [{"type": "object"}, {"$ref": "#/x"}]}, "5", "5"),
        ({"anyOf": [5]}, "5", "5"),
        ({}, "5", "5"),
        ({}, "x", '"x"'),
        (True, "05", '"05"'),
        (None, '["a", 1]', '["a",1]'),
    ],
)
def test_types(schema: Any, text: str, expected: str) -> None:
    kinds = Schemas({"f": {"properties": {"k": schema}}}).kinds("f", "k")
    assert as_json(text, kinds) == expected


@pytest.mark.parametrize("parameters", [None, 5, [], {}, {"properties": None}, {"properties": {"other": {}}}])
def test_schemas_that_say_nothing(parameters: Any) -> None:
    assert Schemas({"f": parameters}).kinds("f", "k") == frozenset()
    assert Schemas({"f": parameters}).kinds("g", "k") == frozenset()
