"""What is known of a Decisions body that fits the schema, as its reader has met it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smg.api.decisions_schema import (
    MAX_EVIDENCE,
    MAX_IDENTIFIER,
    MAX_IMAGES,
    MAX_TEXT,
    Choice,
    Choose,
    ImagePart,
    Kind,
    Level,
    Message,
    Predicate,
    Request,
    Score,
    TextPart,
)
from smg.api.decisions_scoring import question_problem

# The order in which a repeated member is told, and an unknown one: the request's own come first.
OWN, INPUT, QUESTIONS = range(3)


class Findings:
    """What is known of a body that fits the schema.

    `repeated`: a known member that an object has twice; `extension`: the first member that no schema knows,
    images' aside, and its place; `problems`: the limits that are broken, by field; `scoring`: why its
    questions cannot be scored as labels.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        self.images = 0
        self.has_text = False
        self.questions = 0
        self.scoring: str | None = None
        self._repeated: list[str | None] = [None] * 3
        self._extensions: list[tuple[str, str] | None] = [None] * 3

    @property
    def repeated(self) -> str | None:
        return next(filter(None, self._repeated), None)

    @property
    def extension(self) -> tuple[str, str] | None:
        return next(filter(None, self._extensions), None)

    def marks(self, section: int) -> tuple[str | None, tuple[str, str] | None]:
        return self._repeated[section], self._extensions[section]

    def mark(self, section: int, repeated: str | None, extension: tuple[str, str] | None) -> None:
        """Note what an object has, unless one before it had the same."""
        self._repeated[section] = self._repeated[section] or repeated
        self._extensions[section] = self._extensions[section] or extension

    def restore(self, section: int, marks: tuple[str | None, tuple[str, str] | None]) -> None:
        self._repeated[section], self._extensions[section] = marks

    def exceeds(self, field: str, limit: int) -> None:
        self.problems.setdefault(field, f"must be at most {limit} characters")

    def image(self, is_inline: bool) -> None:
        self.images += 1
        if self.images > MAX_IMAGES:
            self.problems.setdefault("input", f"at most {MAX_IMAGES} images are allowed per request")
        elif not is_inline:
            self.problems.setdefault("input", "images must be inline base64 image data URLs")

    # ---- objects as they are met

    def note(self, one: Any, index: int) -> None:
        """See an object and all inside it; `index`: the question's."""
        _SEEN[type(one)](self, one, index)

    def _see_request(self, one: Request, _: int) -> None:
        self._see_content(one.input)
        for number, question in enumerate(one.questions):
            self.note(question, number)
        self._limit("model", MAX_TEXT, one.model)
        self._limit("safety_identifier", MAX_IDENTIFIER, one.safety_identifier)

    def _see_message(self, one: Message, _: int) -> None:
        self._see_content(one.content)

    def _see_content(self, content: str | list[Any]) -> None:
        if isinstance(content, str):
            self._see_text(content)
        else:
            for part in content:
                self.note(part, 0)

    def _see_text_part(self, one: TextPart, _: int) -> None:
        if len(one.text) > MAX_EVIDENCE:
            self.exceeds("input", MAX_EVIDENCE)
        self._see_text(one.text)

    def _see_text(self, text: str) -> None:
        self.has_text = self.has_text or not _is_blank(text)

    def _see_image(self, one: ImagePart, _: int) -> None:
        self.image(_is_inline_image(one.image_url))

    def _see_predicate(self, one: Predicate, index: int) -> None:
        self._see_question(one, index, 0)

    def _see_choose(self, one: Choose, index: int) -> None:
        for choice in one.choices:
            self._see_choice(choice, 0)
        self._see_question(one, index, len(one.choices))

    def _see_score(self, one: Score, index: int) -> None:
        for level in one.levels:
            self._see_level(level, 0)
        self._see_question(one, index, len(one.levels))

    def _see_choice(self, one: Choice, _: int) -> None:
        self._limit("questions", MAX_TEXT, one.description)

    def _see_level(self, one: Level, _: int) -> None:
        self._limit("questions", MAX_TEXT, one.label, one.description)

    def _see_question(self, one: Predicate | Choose | Score, index: int, options: int) -> None:
        self._limit("questions", MAX_TEXT, one.instructions, one.name)
        self.count_question(type(one), index, _is_blank(one.instructions), options)

    def count_question(self, kind: Kind, index: int, blank: bool, options: int) -> None:
        self.questions += 1
        self.scoring = self.scoring or question_problem(kind, index, blank, options)

    def _limit(self, field: str, limit: int, *texts: Any) -> None:
        for text in texts:
            if isinstance(text, str) and len(text) > limit:
                self.exceeds(field, limit)


_SEEN: dict[Kind, Callable[[Findings, Any, int], None]] = {
    Request: Findings._see_request,
    Message: Findings._see_message,
    TextPart: Findings._see_text_part,
    ImagePart: Findings._see_image,
    Predicate: Findings._see_predicate,
    Choose: Findings._see_choose,
    Score: Findings._see_score,
    Choice: Findings._see_choice,
    Level: Findings._see_level,
}


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _is_inline_image(url: str) -> bool:
    """Is it `data:image/...;base64,` with something behind it? That is not decoded."""
    comma = url.find(",")
    head = url[: max(comma, 0)]
    kind = head.removeprefix("data:image/").removesuffix(";base64")
    return len(url) > comma + 1 and len(head) - len(kind) == len("data:image/;base64") and kind != ""
