"""What is measured with: requests, answers and streams, all made from one seed."""

from __future__ import annotations

import json
import random

SEED = 20
MODEL = "m1"
WORDS = ("the", "gateway", "sends", "every", "prompt", "to", "one", "engine", "and", "relays", "answers")
HEADERS = (
    b"host: gateway.example:30000\r\n"
    b"accept: application/json\r\n"
    b"content-type: application/json\r\n"
    b"authorization: Bearer sk-0123456789abcdef0123456789abcdef\r\n"
    b"user-agent: OpenAI/Python 2.54.0\r\n"
    b"x-stainless-lang: python\r\n"
    b"x-stainless-async: false\r\n"
    b"accept-encoding: gzip, deflate\r\n"
    b"connection: keep-alive\r\n"
)


def text(size: int, seed: int = SEED) -> str:
    """About `size` characters of words."""
    source = random.Random(seed)
    words: list[str] = []
    length = 0
    while length < size:
        words.append(source.choice(WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def chat(size: int = 1600, stream: bool = False) -> bytes:
    """The body of a chat request whose prompt has `size` characters."""
    messages = [
        {"role": "system", "content": text(size // 2, 1)},
        {"role": "user", "content": text(size - size // 2, 2)},
    ]
    body = {"model": MODEL, "messages": messages, "max_tokens": 100, "temperature": 0.7}
    return json.dumps({**body, "stream": True} if stream else body).encode()


def request(body: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    head = b"POST %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (path, HEADERS, len(body))
    return head + body


def answer() -> bytes:
    """A whole answer to a chat request, head and body."""
    message = {"role": "assistant", "content": "The capital of France is Paris."}
    body = json.dumps(
        {
            "id": "chatcmpl-0123456789",
            "object": "chat.completion",
            "created": 1705312345,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 25, "completion_tokens": 8, "total_tokens": 33},
        }
    ).encode()
    return ANSWER_HEAD % len(body) + body


ANSWER_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def event(content: str = " hello") -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    whole = {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1705312345}
    return b"data: %b\n\n" % json.dumps({**whole, "model": MODEL, "choices": [choice]}).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


EVENT = chunk(event())
STREAM_END = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
