"""DeepSeek V4 and V4.1: thinking is on unless turned off, and effort levels have other names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from smg._fast.jsonspan import Members
from smg.api.draft import NULL, Draft
from smg.api.profiles.profile import Effort, Profile, edit
from smg.api.tools import is_forced, read_choice

_OVERRIDES = (b"thinking", b"enable_thinking")
_BUDGET = re.compile(r"0*(?:[1-9][0-9]?|100)")


class DeepSeekV4(Profile):
    marker = r"deepseek-(?:flash|v4-flash|v4-pro)(?=/|\Z)"
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    takes_budget = False
    renamed: Mapping[str, str] = {"minimal": "low", "medium": "high", "xhigh": "high"}
    effort_rule = (
        "DeepSeek V4 reasoning effort must be none, low, high or max"
        " (minimal, medium and xhigh aliases are accepted)"
    )

    def problems(self, draft: Draft) -> Iterator[str]:
        variables = draft.inside("chat_template_kwargs")
        set_here = [_override(variables, name) for name in _OVERRIDES]
        if any(value not in (NULL, b"true", b"false") for value in set_here):
            yield "DeepSeek thinking template overrides must be booleans or null"
        if set(set_here) == {b"true", b"false"}:
            yield "DeepSeek thinking and enable_thinking template overrides must agree"
        effort = Effort(draft)
        if effort.type == "adaptive":
            yield "thinking.type must be enabled or disabled for DeepSeek V4"
        if not all(self._is_known(level) for level in (effort.outer, effort.thinking)):
            yield self.effort_rule
        choice = read_choice(draft.text, *draft.span("tool_choice")) if draft.has("tool_choice") else "none"
        if is_forced(choice) and _is_thinking(variables, effort):
            yield "DeepSeek V4 requires thinking to be disabled for forced tool choice"

    def rewrite(self, draft: Draft) -> None:
        super().rewrite(draft)
        effort = Effort(draft)
        outer = self.renamed.get(effort.outer or "")
        if outer is not None and effort.outer_is_text:
            draft.replace("reasoning_effort", msgspec.json.encode(outer))
        inner = self.renamed.get(effort.thinking or "")
        if inner is not None and effort.thinking_span is not None:
            draft.edits.put(*edit(effort.thinking_span, inner))
        variables = draft.inside("chat_template_kwargs")
        if _override(variables, b"thinking") == NULL:
            thinks = b"true" if _is_thinking(variables, effort) else b"false"
            draft.put_inside("chat_template_kwargs", b"thinking", thinks)

    def _is_known(self, level: str | None) -> bool:
        if level is None or level in self.efforts:
            return True
        return self.takes_budget and _BUDGET.fullmatch(level) is not None


class DeepSeekV41(DeepSeekV4):
    marker = r"deepseek-v4\.1-flash(?=/|\Z)"
    takes_budget = True
    renamed: Mapping[str, str] = {"minimal": "low", "medium": "high"}
    effort_rule = (
        "DeepSeek V4.1 reasoning effort must be none, low, high, xhigh, max or an integer budget"
        " from 1 to 100 (minimal and medium aliases are accepted)"
    )


def _override(variables: Members | None, name: bytes) -> bytes:
    """What a template variable is set to, as written; null when it is not set."""
    return (variables.raw(name) if variables is not None else None) or NULL


def _is_thinking(variables: Members | None, effort: Effort) -> bool:
    """Template overrides come first, then the thinking type, then the effort; it thinks by default."""
    for name in _OVERRIDES:
        value = _override(variables, name)
        if value != NULL:
            return value == b"true"
    if effort.type is not None:
        return effort.type == "enabled"
    return (effort.thinking if effort.thinking is not None else effort.outer) != "none"
