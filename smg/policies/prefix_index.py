"""Which worker holds how much of a prompt: the token tree, the text index, and the workers' places in them.

The one seam to what engines report of their caches by themselves later: whoever knows better than "it was
sent there" inserts and forgets here.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from smg._fast.promptspan import prompt_spans, spans_size
from smg._fast.radix import MAX_WORKERS, TokenTree
from smg._fast.textindex import TextIndex
from smg.policies.ask import Ask
from smg.workers.worker import Worker

_PROMPTS = {
    "chat": b"messages",
    "completions": b"prompt",
    "generate": b"text",
    "embeddings": b"input",
    "responses": b"input",
    "messages": b"messages",
}
_OTHER = {"generate": b"input_ids"}
TEXT_BYTES_PER_TOKEN = 4
"""What a hinted token weighs where tokens and text are added up."""


class Prompt:
    """A request's prompt as the index takes it: tokens, or spans of its body. `size` in bytes of text."""

    __slots__ = ("body", "size", "spans", "tokens")

    def __init__(self, tokens: array[int] | None, body: bytes, spans: bytes | None, size: int) -> None:
        self.tokens = tokens
        self.body = body
        self.spans = spans
        self.size = size


def prompt_of(ask: Ask) -> Prompt | None:
    """The hinted tokens, else the text of the body; None when there is neither."""
    tokens = ask.tokens
    if tokens is not None:
        return Prompt(tokens, b"", None, len(tokens) * TEXT_BYTES_PER_TOKEN)
    body, endpoint = ask.call.body, ask.call.surface.endpoint
    member = _PROMPTS.get(endpoint)
    if body is None or member is None:
        return None
    spans = prompt_spans(body, member)
    if spans is None and endpoint in _OTHER:
        spans = prompt_spans(body, _OTHER[endpoint])
    if spans is None:
        return None
    return Prompt(None, body, spans, spans_size(spans))


class PrefixIndex:
    """`max_size` bounds the tokens of the tree, and the text bytes of the index at four a token."""

    def __init__(self, max_size: int) -> None:
        self._tree = TokenTree(max_size)
        self._text = TextIndex(max_size)
        self._slots: dict[Worker, int] = {}
        self._workers: dict[int, Worker] = {}
        self._free = list(range(MAX_WORKERS - 1, -1, -1))
        self._leaving: list[int] = []
        self._depths = array("i", [0]) * MAX_WORKERS

    def slot(self, worker: Worker) -> int | None:
        """The worker's place; None when there are more workers than places."""
        slot = self._slots.get(worker)
        if slot is None:
            slot = self._take_slot()
            if slot is not None:
                self._slots[worker] = slot
                self._workers[slot] = worker
        return slot

    def _take_slot(self) -> int | None:
        # The tree forgets a worker little by little; until then its slot is only taken for want of another.
        if self._leaving and (not self._free or not self._tree.sweeping):
            self._tree.sweep(sys.maxsize)
            self._free += self._leaving
            self._leaving.clear()
        return self._free.pop() if self._free else None

    def forget(self, worker: Worker) -> None:
        """The worker is gone, and with it what it held."""
        slot = self._slots.pop(worker, None)
        if slot is not None:
            del self._workers[slot]
            self._tree.remove_worker(slot)
            self._text.remove_worker(slot)
            self._leaving.append(slot)

    def best(self, prompt: Prompt) -> tuple[int, list[Worker]]:
        """The longest stored prefix, in bytes of text, and the workers that hold it."""
        if prompt.tokens is not None:
            matched, slots = self._tree.best(prompt.tokens)
            matched *= TEXT_BYTES_PER_TOKEN
        else:
            matched, slots = self._text.best(prompt.body, prompt.spans or b"")
        return matched, [self._workers[slot] for slot in slots if slot in self._workers]

    def held(self, prompt: Prompt, workers: Sequence[Worker]) -> list[int]:
        """How many bytes of the prompt's text each worker holds, from its beginning."""
        depths = self._depths
        if prompt.tokens is not None:
            self._tree.depths(prompt.tokens, depths)
            scale = TEXT_BYTES_PER_TOKEN
        else:
            self._text.depths(prompt.body, prompt.spans or b"", depths)
            scale = 1
        slots = self._slots
        return [depths[slots[w]] * scale if w in slots else 0 for w in workers]

    def insert(self, prompt: Prompt, worker: Worker) -> None:
        """The worker will hold this prompt."""
        slot = self.slot(worker)
        if slot is None:
            return
        if prompt.tokens is not None:
            self._tree.insert(prompt.tokens, slot)
        else:
            self._text.insert(prompt.body, prompt.spans or b"", slot)
