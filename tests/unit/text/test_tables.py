"""The parsers' names in the documentation are those that there are."""

from __future__ import annotations

import re
from pathlib import Path

from smg.text import reasoning, tools

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operating.md"


def test_the_page_names_every_parser() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for field, parsers in (("tool_call_parser", tools.PARSERS), ("reasoning_parser", reasoning.PARSERS)):
        row = re.search(rf"^\| `{field}` \| (.*) \|$", page, re.M)
        assert row
        assert re.findall(r"`([^`]+)`", row[1]) == sorted(parsers)
