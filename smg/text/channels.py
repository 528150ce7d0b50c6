"""The marks of answers that are made of channels or messages, and the reasoning in such an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

K3_THINK = "<|open|>think<|sep|>"
K3_THOUGHT = "<|close|>think<|sep|>"
K3_RESPONSE = "<|open|>response<|sep|>"
K3_TOOLS = "<|open|>tools<|sep|>"
K3_AROUND = (
    K3_RESPONSE,
    "<|close|>response<|sep|>",
    "<|open|>message<|sep|>",
    '<|open|>message role="assistant"<|sep|>',
    "<|close|>message<|sep|>",
)
"""Marks around what a client is to read."""
K3_END = "<|end_of_msg|>"

INKLING_MODEL = "<|message_model|>"
INKLING_THINKING = "<|content_thinking|>"
INKLING_CALL = "<|content_invoke_tool_json|>"
INKLING_END = "<|end_message|>"
INKLING_AROUND = (
    INKLING_MODEL,
    INKLING_THINKING,
    INKLING_END,
    "<|content_text|>",
    "<|message_user|>",
    "<|message_tool|>",
    "<|content_model_end_sampling|>",
)


def _splitting(marks: Iterable[str]) -> re.Pattern[str]:
    return re.compile("(" + "|".join(map(re.escape, marks)) + ")")


_K3 = _splitting((K3_THINK, K3_THOUGHT, *K3_AROUND))
_INKLING = _splitting((INKLING_CALL, *INKLING_AROUND))


def split_kimi_k3(text: str) -> tuple[str, str]:
    """(reasoning, the rest). A text whose thinking was opened in the prompt only closes it."""
    reasoning: list[str] = []
    content: list[str] = []
    before, closed, after = text.partition(K3_THOUGHT)
    if closed and K3_THINK not in before:
        reasoning.append(before)
        text = after
    sink = content
    for piece in _K3.split(text):
        if piece == K3_THINK:
            sink = reasoning
            if not "".join(content).strip():
                content.clear()
        elif piece == K3_THOUGHT or piece in K3_AROUND:
            sink = content
        else:
            sink.append(piece)
    return "".join(reasoning), "".join(content)


def split_inkling(text: str) -> tuple[str, str]:
    """(reasoning, the rest), in which calls stay as they are. What names a message's recipient is dropped."""
    reasoning: list[str] = []
    content: list[str] = []
    sink = content
    calling = False
    for piece in _INKLING.split(text):
        if piece == INKLING_CALL or (calling and piece == INKLING_END):
            calling = piece == INKLING_CALL
            sink = content
            sink.append(piece)
        elif piece == INKLING_MODEL:
            sink = []
        elif piece in INKLING_AROUND:
            sink = reasoning if piece == INKLING_THINKING else content
        else:
            sink.append(piece)
    return "".join(reasoning), "".join(content)
