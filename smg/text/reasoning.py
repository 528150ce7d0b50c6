"""Reasoning taken out of a whole text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from smg.text.channels import split_inkling, split_kimi_k3

Split: TypeAlias = Callable[[str], tuple[str, str]]
"""(reasoning, the rest) of a text."""


@dataclass(frozen=True, slots=True)
class Markers:
    """What opens and closes the reasoning; `always`: a text begins with it, marked or not."""

    opening: str
    closing: str
    always: bool = False

    def split(self, text: str) -> tuple[str, str]:
        """(reasoning, the rest). Reasoning that nothing closes goes to the end; blanks are kept."""
        if not self.always and self.opening not in text:
            return "", text
        reasoning, _, rest = text.replace(self.opening, "").partition(self.closing)
        return reasoning, rest


def nothing(text: str) -> tuple[str, str]:
    return "", text


_THINK = Markers("<think>", "</think>").split
_ALWAYS = Markers("<think>", "</think>", always=True).split

PARSERS: dict[str, Split] = {
    "base": _THINK,
    "cohere_cmd": Markers("<|START_THINKING|>", "<|END_THINKING|>").split,
    "deepseek_r1": _ALWAYS,
    "deepseek_v31": _THINK,
    "deepseek_v4": _THINK,
    "deepseek_v41": _THINK,
    "glm45": _THINK,
    "inkling": split_inkling,
    "kimi": Markers("◁think▷", "◁/think▷").split,
    "kimi_k25": _THINK,
    "kimi_k3": split_kimi_k3,
    "kimi_thinking": _ALWAYS,
    "minimax": _ALWAYS,
    "nano_v3": _THINK,
    "passthrough": nothing,
    "qwen3": _THINK,
    "qwen3_thinking": _ALWAYS,
    "step3": _ALWAYS,
}
