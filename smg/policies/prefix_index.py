"""Which worker holds how much of a prompt: the token tree, the text index, and the workers' places in them.

What engines report of their caches by themselves can come in where `Index` in cache_aware.py says.
"""

from __future__ import annotations

import sys
from array import array

from smg._fast.index import MAX_WORKERS
from smg._fast.promptspan import first_spans, spans_size
from smg._fast.radix import TokenTree
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
MOST_TEXT = 2 * 1024 * 1024
"""Bytes of a prompt that are looked at: half a million tokens, in half a millisecond."""
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
    call = ask.call
    body, endpoint = call.body, call.surface.endpoint
    member = _PROMPTS.get(endpoint)
    if body is None or member is None:
        return None
    spans = call.spans(member)
    if spans is None and endpoint in _OTHER:
        spans = call.spans(_OTHER[endpoint])
    if spans is None:
        return None
    if len(body) > MOST_TEXT:
        spans = first_spans(spans, MOST_TEXT)
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
        # A worker is forgotten little by little; until then its slot is only taken for want of another.
        if self._leaving and (not self._free or not (self._tree.sweeping or self._text.sweeping)):
            self._tree.sweep(sys.maxsize)
            self._text.sweep(sys.maxsize)
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

    def insert(self, prompt: Prompt, worker: Worker) -> None:
        """The worker will hold this prompt."""
        slot = self.slot(worker)
        if slot is None:
            return
        if prompt.tokens is not None:
            self._tree.insert(prompt.tokens, slot)
        else:
            self._text.insert(prompt.body, prompt.spans or b"", slot)
