"""llama.cpp's own HTTP server with a tiny trained model behind a real gateway.

The model repeats the dialogues it was trained on, so the very words are known.
"""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.system.processes import Processes
from tests.waiting import wait_until

WEIGHTS = Path(__file__).parents[2] / "data" / "tiny-chat" / "tiny-chat.gguf"
ENGINE = """
import signal, sys, xllamacpp as x
p = x.CommonParams()
p.model.path, p.port = sys.argv[1], int(sys.argv[2])
p.model_alias, p.hostnames = {"tiny"}, ["127.0.0.1"]
p.n_parallel, p.n_ctx, p.cpuparams.n_threads = 8, 4096 * 8, 1
p.use_jinja = p.endpoint_metrics = True
server = x.Server(p)
signal.pause()
"""


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def client(started: Processes, llamacpp_python: str) -> Iterator[openai.OpenAI]:
    engine, gateway = free_port(), free_port()
    started.start([llamacpp_python, "-c", ENGINE, str(WEIGHTS), str(engine)])
    wait_until(lambda: answers(f"http://127.0.0.1:{engine}/health"), "llama.cpp ready")
    words = ("--host", "127.0.0.1", "--port", str(gateway), "--prometheus-port", "0")
    started.smg("launch", *words, "--worker-urls", f"http://127.0.0.1:{engine}")
    wait_until(lambda: answers(f"http://127.0.0.1:{gateway}/readiness"), "gateway ready")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{gateway}/v1", api_key="x", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, text: str) -> str:
    messages = [{"role": "user", "content": text}]
    answer = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
    return answer.choices[0].message.content


def stream(client: openai.OpenAI, text: str) -> list[str]:
    messages = [{"role": "user", "content": text}]
    chunks = client.chat.completions.create(model="tiny", messages=messages, temperature=0, stream=True)
    return [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]


def test_the_engine_is_recognised(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list().data] == ["tiny"]


def test_chat(client: openai.OpenAI) -> None:
    assert ask(client, "What is the capital of France?") == "The capital of France is Paris."


def test_stream_of_characters_that_span_tokens(client: openai.OpenAI) -> None:
    pieces = stream(client, "Say naïve café 你好 🙂")
    assert "".join(pieces) == "naïve café 你好 🙂"
    assert len(pieces) > 2


def test_long_stream(client: openai.OpenAI) -> None:
    assert "".join(stream(client, "Count to 40")) == ", ".join(map(str, range(1, 41))) + "."


def test_second_turn(client: openai.OpenAI) -> None:
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello! How can I help you today?"},
        {"role": "user", "content": "What is the capital of Italy?"},
    ]
    answer = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
    assert answer.choices[0].message.content == "The capital of Italy is Rome."
