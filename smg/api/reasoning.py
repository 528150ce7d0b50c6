"""Reasoning taken out of a whole text, by the parsers that look for a pair of markers."""

from __future__ import annotations

from dataclasses import dataclass


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


_THINK = Markers("<think>", "</think>")
_ALWAYS = Markers("<think>", "</think>", always=True)

# None: the text is taken as it is.
PARSERS: dict[str, Markers | None] = {
    "base": _THINK,
    "cohere_cmd": Markers("<|START_THINKING|>", "<|END_THINKING|>"),
    "deepseek_r1": _ALWAYS,
    "deepseek_v31": _THINK,
    "deepseek_v4": _THINK,
    "glm45": _THINK,
    "kimi": Markers("◁think▷", "◁/think▷"),
    "kimi_k25": _THINK,
    "kimi_thinking": _ALWAYS,
    "minimax": _ALWAYS,
    "nano_v3": _THINK,
    "passthrough": None,
    "qwen3": _THINK,
    "qwen3_thinking": _ALWAYS,
    "step3": _ALWAYS,
}
UNBUILT = frozenset({"inkling", "kimi_k3"})
"""Parsers of framed messages, which come with the engines that need them."""


def split_reasoning(text: str, parser: str) -> tuple[str, str]:
    """(reasoning, the rest). `KeyError` for a parser that is not there."""
    markers = PARSERS[parser]
    return markers.split(text) if markers is not None else ("", text)
