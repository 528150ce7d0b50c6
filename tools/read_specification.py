"""Writes tests/data/specification.json from the tables of the API's specification, a page of Markdown.

The file is what tests/test_specification.py holds the gateway to; make it anew when the page changes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WRITTEN = Path(__file__).resolve().parent.parent / "tests/data/specification.json"

# Of each row, beside the names in its first column that counts.
KEPT = ("Type", "Required", "Description", "Payload", "Extra fields", "Status", "Profile", "Rejected")
# A heading somewhere above a table, the nearest one, and columns it has: the first of them names things.
TABLES = {
    "chat": ("Chat Completions", "Request Body", ("Field",)),
    "extensions": ("Chat Completions", "Extension Fields", ("Field",)),
    "message": ("Chat Completions", "Message Object", ("Field",)),
    "thinking": ("Chat Completions", "Thinking and Reasoning Effort", ("Field",)),
    "stream_options": ("Chat Completions", "Stream Usage", ("`stream_options` field",)),
    "completions": ("Completions", "Request Body", ("Field",)),
    "decisions": ("Decisions", "Request Body", ("Field",)),
    "decision_message": ("Decisions", "Decision Input", ("Field",)),
    "decision_parts": ("Decisions", "Decision Input", ("Part `type`",)),
    "decision_questions": ("Decisions", "Decision Questions", ("`type`", "Extra fields")),
    "decision_errors": ("Decisions", "Decision Errors", ("`code`",)),
    "transcription": ("Audio Transcriptions", "Audio Transcriptions", ("Field",)),
    "transcription_grpc_errors": ("Audio Transcriptions", "Audio Transcriptions", ("gRPC result",)),
    "profile_rules": ("Provider Profiles", "Validation Rules", ("Rule code",)),
    "error_codes": ("Error Responses", "Error Codes", ("`code`",)),
    "shed_codes": ("Rate Limiting", "Rate Limiting", ("`code`",)),
    "request_headers": ("Request Headers", "Request Headers", ("Header", "Purpose")),
    "hint_headers": ("Request Headers", "Routing Hint Headers", ("Header",)),
    "response_headers": ("Request Headers", "Response Headers", ("Header",)),
}

_HEADING = re.compile(r"(#+) (.+)")
_QUOTED = re.compile(r"`([^`]+)`")
_CELL = re.compile(r"(?<!\\)\|")
_FORWARDED = re.compile(r"it forwards only these client headers: (.+)\.$", re.M)

Row = dict[str, str]


def read_tables(text: str) -> Iterator[tuple[list[str], list[Row]]]:
    """(Headings above it, rows) of every table."""
    above: list[str] = []
    lines: list[str] = []
    is_code = False
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append(line)
            continue
        if lines:
            yield list(above), _rows(lines)
            lines = []
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and (heading := _HEADING.fullmatch(line)):
            above[len(heading[1]) - 1 :] = [heading[2]]


def _rows(lines: list[str]) -> list[Row]:
    head, _, *rest = (
        [cell.strip().replace("\\|", "|") for cell in _CELL.split(line)[1:-1]] for line in lines
    )
    return [dict(zip(head, cells, strict=True)) for cells in rest]


def quoted(cell: str) -> list[str]:
    return _QUOTED.findall(cell)


def find(
    tables: list[tuple[list[str], list[Row]]], outer: str, nearest: str, columns: Sequence[str]
) -> list[Row]:
    for above, rows in tables:
        if outer in above and above[-1] == nearest and set(columns) <= rows[0].keys():
            return rows
    raise SystemExit(f"there is no table with {', '.join(columns)} under {outer}, {nearest}")


def read(text: str) -> dict[str, list[Any]]:
    """Each table's rows, and the list of forwarded headers, which is a sentence."""
    tables = list(read_tables(text))
    found: dict[str, list[Any]] = {}
    for name, (outer, nearest, columns) in TABLES.items():
        rows = find(tables, outer, nearest, columns)
        found[name] = [
            {"names": quoted(row[columns[0]])} | {column: row[column] for column in KEPT if column in row}
            for row in rows
        ]
    forwarded = _FORWARDED.search(text)
    if forwarded is None:
        raise SystemExit("the headers that are forwarded are not listed")
    found["forwarded_headers"] = quoted(forwarded[1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="the specification, openai-api.md")
    page = parser.parse_args().page
    found = read(page.read_text(encoding="utf-8"))
    WRITTEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
