"""Which Decisions SGLang can answer at all: it scores labels after text, and nothing else."""

from __future__ import annotations

import msgspec

from smg.api.decisions import Choose, Decisions, ImagePart, Message, Score

MAX_CHOICES = 255
MAX_LEVELS = 10


def unsupported(call: Decisions) -> str | None:
    """Why no label scoring can serve the call; None when it can."""
    request = call.request
    for name, place in call.extensions:
        return f"SGLang Decisions cannot honor field {msgspec.json.encode(name).decode()} on {place}"
    if _has_image(request.input):
        return "SGLang 0.5.21 Decisions does not support image input"
    if not _has_text(request.input):
        return "SGLang Decisions requires nonempty text input"
    if not request.questions:
        return "SGLang Decisions requires at least one question"
    for index, question in enumerate(request.questions):
        if _is_blank(question.instructions):
            return f"SGLang Decisions question {index} requires nonempty instructions"
        if isinstance(question, Choose) and not 1 <= len(question.choices) <= MAX_CHOICES:
            return f"SGLang Decisions question {index} requires 1 to {MAX_CHOICES} choices"
        if isinstance(question, Score) and not 1 <= len(question.levels) <= MAX_LEVELS:
            return f"SGLang Decisions question {index} requires 1 to {MAX_LEVELS} score levels"
    return None


def _has_image(evidence: str | list[Message]) -> bool:
    contents = [] if isinstance(evidence, str) else [message.content for message in evidence]
    return any(isinstance(part, ImagePart) for one in contents if not isinstance(one, str) for part in one)


def _has_text(evidence: str | list[Message]) -> bool:
    if isinstance(evidence, str):
        return not _is_blank(evidence)
    for message in evidence:
        content = message.content
        texts = [content] if isinstance(content, str) else [getattr(part, "text", "") for part in content]
        if not all(_is_blank(text) for text in texts):
            return True
    return False


def _is_blank(text: str) -> bool:
    return not text or text.isspace()
