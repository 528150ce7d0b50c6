"""Tool-call parsers by their names in the API. A new format is one class and one line here."""

from __future__ import annotations

from smg.text.feed import Steps
from smg.text.tools.named import DeepSeek, DeepSeek31, KimiK2
from smg.text.tools.objects import Cohere, Inkling, Json, Llama, Mistral, Qwen
from smg.text.tools.parser import ToolParser
from smg.text.tools.pythonic import Pythonic, Sarashina
from smg.text.tools.tagged import DeepSeek32, DeepSeekV4, Glm, KimiK3, MiniMax, QwenXml, Step3

__all__ = ["PARSERS", "ToolParser"]


class Passthrough(ToolParser):
    """Everything is content."""

    KEEPS_REST = True

    def steps(self) -> Steps[None]:
        while True:
            if len(self.feed.text) > self.feed.at:
                self.text(self.feed.text[self.feed.at :])
                self.feed.at = len(self.feed.text)
            if self.feed.ended:
                return
            yield


PARSERS: dict[str, type[ToolParser]] = {
    "cohere": Cohere,
    "deepseek": DeepSeek,
    "deepseek31": DeepSeek31,
    "deepseek32": DeepSeek32,
    "deepseek_v4": DeepSeekV4,
    "deepseek_v41": DeepSeekV4,
    "glm45_moe": Glm,
    "glm47_moe": Glm,
    "inkling": Inkling,
    "json": Json,
    "kimi_k3": KimiK3,
    "kimik2": KimiK2,
    "llama": Llama,
    "minimax_m2": MiniMax,
    "mistral": Mistral,
    "nemotron": QwenXml,
    "passthrough": Passthrough,
    "pythonic": Pythonic,
    "qwen": Qwen,
    "qwen_coder": QwenXml,
    "qwen_xml": QwenXml,
    "sarashina": Sarashina,
    "step3": Step3,
}
