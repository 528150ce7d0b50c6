"""z.ai's GLM models: effort levels, function tools only, and sampling defaults of the newer ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from smg.api.chat_request import FILE_PART
from smg.api.draft import NULL, Draft
from smg.api.profiles.profile import Effort, Profile, objects_at, text_at

# GLM-5.x, GLM-4.7 and GLM-4.6.
_WITH_DEFAULTS = re.compile(r"(?:^|/)glm(?:[-_]?5|-4\.[67])(?!\d)", re.ASCII | re.IGNORECASE)


class Glm(Profile):
    marker = "glm|zai|z-ai"
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

    def problems(self, draft: Draft) -> Iterator[str]:
        effort = Effort(draft)
        yield from self.type_problems(effort.type)
        told = f"{', '.join(self.efforts[:-1])} or {self.efforts[-1]}"
        for field, level in (("thinking.effort", effort.thinking), ("reasoning_effort", effort.outer)):
            if level is not None and level not in self.efforts:
                yield f"invalid {field}: only {told} is allowed for this model"
        if draft.has("tools"):
            for tool in objects_at(draft.text, draft.start("tools")):
                kind = text_at(draft.text, tool.span(b"type"))
                if kind != "function":
                    yield f"invalid tools[].type '{kind}': only 'function' is supported"
        for *_, start, end in draft.found.marks(FILE_PART):
            if text_at(draft.text, (start, end)) == "file_url":
                yield "file_url content blocks are not supported"

    def type_problems(self, kind: str | None) -> Iterator[str]:
        if kind == "adaptive":
            yield "invalid thinking.type: only enabled or disabled is allowed for this model"

    def rewrite(self, draft: Draft) -> None:
        super().rewrite(draft)
        draft.remove(b"tool_stream")
        thinking = draft.inside("thinking")
        cleared = thinking.raw(b"clear_thinking") if thinking is not None else None
        if cleared is not None and cleared != NULL:
            variables = draft.inside("chat_template_kwargs")
            if variables is None or b"clear_thinking" not in variables:
                draft.put_inside("chat_template_kwargs", b"clear_thinking", cleared)
        if _WITH_DEFAULTS.search(draft.model or "") is not None:
            draft.default("temperature", b"1.0")
            draft.default("top_p", b"0.95")


class Glm53(Glm):
    marker = r"glm[-_]?5\.3|glm-?5-3"
    efforts = ("low", "high", "max")

    def type_problems(self, kind: str | None) -> Iterator[str]:
        if kind == "disabled":
            yield "thinking cannot be disabled for this model"
        if kind == "adaptive":
            yield "invalid thinking.type: only enabled is allowed for this model"
