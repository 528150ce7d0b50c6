"""How generated text is written on the wire: chat, completions and SGLang's `/generate`.

A shape belongs to one request. Streams are built for many events: what is the same in every frame
is encoded once.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import msgspec

from smg.sim.text import Choice

FINGERPRINT = "simulated"
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.encode


class Usage(msgspec.Struct):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def openai(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


class Shape(Protocol):
    """Frames of a stream, and the whole answer."""

    def opening(self, index: int) -> bytes | None: ...
    def piece(self, index: int, text: bytes, tokens: int, usage: Usage) -> bytes: ...
    def closing(self, index: int, choice: Choice, usage: Usage) -> bytes | None: ...
    def usage(self, usage: Usage) -> bytes: ...
    def whole(self, choices: list[Choice], usages: list[Usage], total: Usage) -> bytes: ...


def _event(value: object) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"


class _OpenAI:
    """What chat and completions have in common."""

    object_name: str
    chunk_name: str

    def __init__(self, request_id: str, model: str, kind: str) -> None:
        self._stop_key = {"vllm": "stop_reason", "sglang": "matched_stop"}.get(kind)
        self._head = {
            "id": request_id,
            "object": self.chunk_name,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": FINGERPRINT,
        }
        self._frames: dict[int, tuple[bytes, bytes]] = {}

    def _frame(self, index: int, member: str) -> tuple[bytes, bytes]:
        """The bytes around the text of a content frame; `member` holds the text, given as JSON."""
        start = _encode(self._head)[:-1] + b',"choices":[{"index":%d,' % index
        head, _, tail = member.encode().partition(b"TEXT")
        frame = b"data: " + start + head, tail + b',"logprobs":null,"finish_reason":null}]}\n\n'
        self._frames[index] = frame
        return frame

    def _chunk(self, choices: list[dict[str, Any]]) -> bytes:
        return _event({**self._head, "choices": choices})

    def _ending(self, choice: Choice) -> dict[str, Any]:
        ending: dict[str, Any] = {"logprobs": None, "finish_reason": choice.finish_reason}
        if self._stop_key:
            ending[self._stop_key] = choice.matched_stop
        return ending

    def usage(self, usage: Usage) -> bytes:
        return _event({**self._head, "choices": [], "usage": usage.openai()})

    def _answer(self, choices: list[dict[str, Any]], usage: Usage) -> bytes:
        return _encode(
            {**self._head, "object": self.object_name, "choices": choices, "usage": usage.openai()}
        )


class ChatShape(_OpenAI):
    object_name = "chat.completion"
    chunk_name = "chat.completion.chunk"

    def opening(self, index: int) -> bytes | None:
        delta = {"role": "assistant", "content": ""}
        return self._chunk([{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}])

    def piece(self, index: int, text: bytes, tokens: int, usage: Usage) -> bytes:
        head, tail = self._frames.get(index) or self._frame(index, '"delta":{"content":"TEXT"}')
        return head + text + tail

    def closing(self, index: int, choice: Choice, usage: Usage) -> bytes | None:
        return self._chunk([{"index": index, "delta": {}, **self._ending(choice)}])

    def whole(self, choices: list[Choice], usages: list[Usage], total: Usage) -> bytes:
        return self._answer(
            [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": choice.text.decode()},
                    **self._ending(choice),
                }
                for index, choice in enumerate(choices)
            ],
            total,
        )


class CompletionShape(_OpenAI):
    object_name = chunk_name = "text_completion"

    def __init__(self, request_id: str, model: str, kind: str, echoes: list[bytes]) -> None:
        super().__init__(request_id, model, kind)
        self._echoes = echoes  # one per choice, or none

    def _echo(self, index: int) -> str:
        return self._echoes[index].decode("utf-8", "replace") if self._echoes else ""

    def opening(self, index: int) -> bytes | None:
        if not self._echoes:
            return None
        text = self._echo(index)
        return self._chunk([{"index": index, "text": text, "logprobs": None, "finish_reason": None}])

    def piece(self, index: int, text: bytes, tokens: int, usage: Usage) -> bytes:
        head, tail = self._frames.get(index) or self._frame(index, '"text":"TEXT"')
        return head + text + tail

    def closing(self, index: int, choice: Choice, usage: Usage) -> bytes | None:
        return self._chunk([{"index": index, "text": "", **self._ending(choice)}])

    def whole(self, choices: list[Choice], usages: list[Usage], total: Usage) -> bytes:
        return self._answer(
            [
                {"index": index, "text": self._echo(index) + choice.text.decode(), **self._ending(choice)}
                for index, choice in enumerate(choices)
            ],
            total,
        )


class GenerateShape:
    """SGLang's own: each frame holds the whole text so far."""

    def __init__(self, ids: list[str], is_batch: bool) -> None:
        self._ids = ids
        self._is_batch = is_batch
        self._texts = [b""] * len(ids)
        self._started_at = time.monotonic()

    def _member(self, index: int, text: bytes, reason: object, usage: Usage) -> dict[str, Any]:
        member: dict[str, Any] = {
            "text": text.decode(),
            "meta_info": {
                "id": self._ids[index],
                "finish_reason": reason,
                "prompt_tokens": usage.prompt_tokens,
                "weight_version": FINGERPRINT,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": usage.cached_tokens,
                "e2e_latency": round(time.monotonic() - self._started_at, 6),
            },
        }
        return member

    def _reason(self, choice: Choice) -> dict[str, Any]:
        if choice.finish_reason == "length":
            return {"type": "length", "length": choice.tokens}
        matched = {} if choice.matched_stop is None else {"matched": choice.matched_stop}
        return {"type": "stop", **matched}

    def _framed(self, index: int, member: dict[str, Any]) -> bytes:
        return _event({**member, "index": index} if self._is_batch else member)

    def opening(self, index: int) -> bytes | None:
        return None

    def piece(self, index: int, text: bytes, tokens: int, usage: Usage) -> bytes:
        self._texts[index] += text
        so_far = Usage(usage.prompt_tokens, tokens, usage.cached_tokens)
        return self._framed(index, self._member(index, self._texts[index], None, so_far))

    def closing(self, index: int, choice: Choice, usage: Usage) -> bytes | None:
        return self._framed(index, self._member(index, choice.text, self._reason(choice), usage))

    def usage(self, usage: Usage) -> bytes:
        return b""

    def whole(self, choices: list[Choice], usages: list[Usage], total: Usage) -> bytes:
        members = [
            self._member(index, choice.text, self._reason(choice), usages[index])
            for index, choice in enumerate(choices)
        ]
        return _encode(members if self._is_batch else members[0])
