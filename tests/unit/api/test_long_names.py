"""A tool that is chosen by a very long name: it is not looked for, and not quoted whole."""

from __future__ import annotations

from typing import Any

import pytest

from smg.api.tools import LONGEST
from tests.unit.api.requests import TOOL, chat, refused_chat

LONG = "g" * LONGEST


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": "auto", "tools": list(tools)}


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        (named(LONG), "': function 'ggg"),
        (allowed({"type": "function", "name": LONG}), ".tools': tool 'ggg"),
        (allowed({"type": "mcp", "server_label": LONG}), ".tools': Chat Completion API only supports"),
        ({**allowed(), "mode": LONG}, ".mode': must be 'auto' or 'required', got 'ggg"),
    ],
)
def test_long_names(choice: dict[str, Any], problem: str) -> None:
    message = refused_chat(tools=[TOOL], tool_choice=choice)
    assert f"Invalid value for 'tool_choice{problem}" in message
    assert len(message) < 200


def test_a_name_that_is_not_too_long_is_looked_for() -> None:
    name = "g" * (LONGEST - 100)
    tools = [named(name)]
    chat(tools=tools, tool_choice=named(name))
    chat(tools=tools, tool_choice=allowed({"type": "function", "name": name}))


def test_a_large_choice_with_short_names() -> None:
    known = {"type": "function", "function": {"name": "f"}, "x": LONG}
    chat(tools=[TOOL], tool_choice=known)
    chat(tools=[TOOL], tool_choice=allowed({"type": "function", "name": "f", "x": LONG}))
