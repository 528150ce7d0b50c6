"""Values that stand as plain text in a call, and the JSON they are by the tool's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smg.text.jsontext import compact, encoded

Kinds = frozenset[str]
"""JSON Schema's names of the types a value may have; empty: nobody knows."""

STRING: Kinds = frozenset({"string"})
TEXT: Kinds = frozenset({"text"})
"""No name of JSON Schema: a string that is the text as it stands."""
_UNKNOWN: Kinds = frozenset()
_PYTHON = {"None": "null", "True": "true", "False": "false"}
_KINDS = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


class Schemas:
    """The parameters' schemas of the tools a request declares, by the tool's name."""

    __slots__ = ("_parameters",)

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters

    def kinds(self, tool: str, key: str) -> Kinds:
        schema = self._parameters.get(tool)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return _kinds(properties.get(key)) if isinstance(properties, dict) else _UNKNOWN


def _kinds(schema: Any) -> Kinds:
    """What a schema says itself, or all its alternatives together if each of them says something."""
    if not isinstance(schema, dict):
        return _UNKNOWN
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str))
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(alternatives, list):
        return _UNKNOWN
    kinds = [frozenset({one["type"]}) for one in alternatives if isinstance(one, dict) and _names_one(one)]
    return frozenset().union(*kinds) if len(kinds) == len(alternatives) else _UNKNOWN


def _names_one(schema: dict[str, Any]) -> bool:
    return isinstance(schema.get("type"), str)


def as_json(text: str, kinds: Kinds) -> str:
    """`text` as JSON of one of these kinds, else as any JSON that it is, else as a string."""
    stripped = text.strip()
    found = compact(_PYTHON.get(stripped, stripped))
    if found is None:
        return encoded(text)
    if "string" in kinds and not _fits(found, kinds):
        return encoded(text)
    return found


def _fits(value: str, kinds: Kinds) -> bool:
    kind = _KINDS.get(value[0], "number")
    return kind in kinds or (kind == "number" and "integer" in kinds and value.lstrip("-").isdigit())
