"""The texts that the shared gRPC cases let engines say, and what their clients must get, streamed or not.

Each text is cut at every place, and into single characters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from smg.text.tools.events import Answer
from tests.unit.text.tools.telling import answer, cut, streamed

CASES = Path(__file__).resolve().parents[3] / "conformance" / "cases"
# The parser the model's name picks in the cases that leave it to the name.
PREFIX = "grpc-tools-auto-"


class Case(NamedTuple):
    name: str
    parser: str
    text: str
    expected: dict[str, Any]


def _cases() -> Iterator[Case]:
    for file in ("grpc-tools", "grpc-tools-auto"):
        for case in json.loads((CASES / f"{file}.json").read_text()):
            arguments = case.get("gateway_args", [])
            named = "--tool-call-parser" in arguments
            parser = arguments[-1] if named else case["name"].removeprefix(PREFIX).replace("-", "_")
            reply = case["workers"][0]["script"]["reply"]
            text = reply.get("text") or "".join(reply["chunks"])
            expect = case["steps"][0]["expect"]
            choice = (expect.get("json_subset") or expect["stream_merged"])["choices"][0]
            # Reasoning is taken out before calls are looked for.
            yield Case(
                case["name"], parser, text.partition("</think>")[2] or text, choice.get("message", choice)
            )


ALL = list(_cases())


def assert_expected(found: Answer, expected: dict[str, Any]) -> None:
    content = expected.get("content") or ""
    if content.startswith("<re:"):
        content = found.text if found.text.strip() == "Ok." else content
    assert found.text == content
    calls = [call["function"] for call in expected.get("tool_calls", [])]
    assert [name for name, _ in found.calls] == [call["name"] for call in calls]
    for (_, arguments), call in zip(found.calls, calls, strict=True):
        assert json.loads(arguments) == json.loads(call["arguments"].removeprefix("<json:").removesuffix(">"))


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_whole_and_at_every_cut(case: Case) -> None:
    whole = answer(case.parser, case.text)
    assert_expected(whole, case.expected)
    for size in (1, 2, 3):
        assert streamed(case.parser, cut(case.text, size)) == whole
    for at in range(1, len(case.text)):
        assert streamed(case.parser, [case.text[:at], case.text[at:]]) == whole


def test_every_family_has_a_case() -> None:
    assert len(ALL) > 60
    assert len({case.parser for case in ALL}) >= 16
