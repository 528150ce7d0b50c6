"""Which Decisions SGLang can answer at all: it scores labels after text, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from smg.api.decisions_schema import Choose, Kind, Score

if TYPE_CHECKING:
    from smg.api.decisions_findings import Findings

MAX_CHOICES = 255
MAX_LEVELS = 10


def unsupported(found: Findings) -> str | None:
    """Why no label scoring can serve the call; None when it can."""
    if found.extension is not None:
        name, place = found.extension
        return f"SGLang Decisions cannot honor field {msgspec.json.encode(name).decode()} on {place}"
    if found.images:
        return "SGLang 0.5.21 Decisions does not support image input"
    if not found.has_text:
        return "SGLang Decisions requires nonempty text input"
    if not found.questions:
        return "SGLang Decisions requires at least one question"
    return found.scoring


def question_problem(kind: Kind, index: int, is_blank: bool, options: int) -> str | None:
    """Why a question's labels cannot be scored. `is_blank`: its instructions; `options`: how many choices or
    levels it has."""
    if is_blank:
        return f"SGLang Decisions question {index} requires nonempty instructions"
    if kind is Choose and not 1 <= options <= MAX_CHOICES:
        return f"SGLang Decisions question {index} requires 1 to {MAX_CHOICES} choices"
    if kind is Score and not 1 <= options <= MAX_LEVELS:
        return f"SGLang Decisions question {index} requires 1 to {MAX_LEVELS} score levels"
    return None
