"""The simulated engine on a real socket: its answers, its streams, and what it does to clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from smg.sim.engine import Engine
from smg.sim.faults import parse
from smg.sim.options import Options
from tests.waiting import until

BOUND_SECS = 20.0
HELLO = {"messages": [{"role": "user", "content": "Hello there, how are you today?"}]}
PREAMBLE = "This is a simulated engine"


@contextlib.asynccontextmanager
async def running(options: Options | None = None) -> AsyncIterator[Engine]:
    engine = Engine(options or Options(output_tokens=12))
    await engine.start("127.0.0.1", 0)
    try:
        yield engine
    finally:
        await engine.close()


def encode(method: str, path: str, body: object = None, headers: str = "") -> bytes:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: sim\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, engine: Engine) -> Client:
        host, _, port = engine.url.removeprefix("http://").rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(BOUND_SECS):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), fields

    async def chunk(self) -> bytes:
        async with asyncio.timeout(BOUND_SECS):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, fields = await self.head()
        if "content-length" in fields:
            async with asyncio.timeout(BOUND_SECS):
                return status, fields, await self.reader.readexactly(int(fields["content-length"]))
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return status, fields, body

    async def rest(self) -> bytes:
        """All until the connection ends; raises when it was reset."""
        async with asyncio.timeout(BOUND_SECS):
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def send(engine: Engine, data: bytes) -> tuple[int, dict[str, str], bytes]:
    client = await Client.connect(engine)
    client.writer.write(data)
    try:
        return await client.answer()
    finally:
        await client.close()


async def ask(
    engine: Engine, method: str, path: str, body: object = None, headers: str = ""
) -> tuple[int, Any]:
    status, fields, answer = await send(engine, encode(method, path, body, headers))
    assert fields["x-simulated"] == "1"
    return status, json.loads(answer) if "json" in fields["content-type"] else answer


async def stream(engine: Engine, path: str, body: dict[str, Any]) -> list[Any]:
    """The events of a stream, `[DONE]` left out but asserted."""
    status, fields, answer = await send(engine, encode("POST", path, {**body, "stream": True}))
    assert (status, fields["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events = answer.decode().removesuffix("\n\n").split("\n\n")
    assert events[-1] == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


@pytest.mark.parametrize(
    ("kind", "present", "absent"),
    [
        (
            "sglang",
            ["/health", "/health_generate", "/v1/models", "/server_info", "/get_server_info", "/model_info",
             "/get_model_info", "/get_load", "/v1/loads?include=core,queues", "/metrics"],
            ["/version", "/load", "/loads?model=m", "/ping"],
        ),
        (
            "vllm",
            ["/health", "/v1/models", "/version", "/load", "/metrics", "/ping"],
            ["/server_info", "/get_server_info", "/model_info", "/get_load", "/v1/loads", "/health_generate"],
        ),
        ("generic", ["/health", "/v1/models"], ["/version", "/server_info", "/metrics", "/load"]),
    ],
)  # fmt: skip
async def test_probes(kind: Any, present: list[str], absent: list[str]) -> None:
    async with running(Options(kind=kind, models=("one", "two"))) as engine:
        for path in present:
            assert (await ask(engine, "GET", path))[0] == 200
        for path in absent:
            assert await ask(engine, "GET", path) == (404, {"detail": "Not Found"})
        _, models = await ask(engine, "GET", "/v1/models")
        assert [model["id"] for model in models["data"]] == ["one", "two"]
        assert models["data"][0]["owned_by"] == ("simulated" if kind == "generic" else kind)


async def test_chat() -> None:
    async with running() as engine:
        status, answer = await ask(engine, "POST", "/v1/chat/completions", {**HELLO, "model": "m"})
        assert status == 200
        assert (answer["object"], answer["model"]) == ("chat.completion", "m")
        assert answer["system_fingerprint"] == "simulated"
        choice = answer["choices"][0]
        assert choice["message"]["content"].startswith(PREAMBLE)
        assert choice["finish_reason"] == "stop"
        usage = answer["usage"]
        assert usage["completion_tokens"] == 12
        assert usage["total_tokens"] == usage["prompt_tokens"] + 12
        assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_chat_stream_says_the_same_as_the_whole_answer() -> None:
    async with running() as engine:
        _, whole = await ask(engine, "POST", "/v1/chat/completions", HELLO)
        options = {"stream_options": {"include_usage": True}}
        events = await stream(engine, "/v1/chat/completions", {**HELLO, **options})
        deltas = [event["choices"][0]["delta"] for event in events[:-1]]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert deltas[-1] == {}
        assert len(deltas) == 14
        assert (
            "".join(delta.get("content", "") for delta in deltas) == whole["choices"][0]["message"]["content"]
        )
        assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [None] * 13 + ["stop"]
        assert events[-1]["choices"] == []
        assert events[-1]["usage"]["completion_tokens"] == 12
        assert {event["object"] for event in events} == {"chat.completion.chunk"}
        assert len({event["id"] for event in events}) == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_several_choices_end_by_themselves(is_stream: bool) -> None:
    async with running(Options(output_tokens=30)) as engine:
        body = {**HELLO, "n": 3, "stop": [" amber", " wolf", "é", " stone", " rain"]}
        _, whole = await ask(engine, "POST", "/v1/chat/completions", body)
        texts = [choice["message"]["content"] for choice in whole["choices"]]
        assert len(set(texts)) == 3
        if is_stream:
            events = await stream(engine, "/v1/chat/completions", body)
            found = ["", "", ""]
            ended: list[int] = []
            for choice in (event["choices"][0] for event in events):
                assert choice["index"] not in ended
                found[choice["index"]] += choice["delta"].get("content", "")
                if choice["finish_reason"]:
                    ended.append(choice["index"])
            assert found == texts
            assert sorted(ended) == [0, 1, 2]


@pytest.mark.parametrize(
    ("limits", "tokens", "reason"),
    [
        ({}, 12, "stop"),
        ({"max_tokens": 5}, 5, "length"),
        ({"max_completion_tokens": 4, "max_tokens": 9}, 4, "length"),
        ({"max_tokens": 0}, 0, "length"),
        ({"max_tokens": 50, "ignore_eos": True}, 50, "length"),
        ({"min_tokens": 20}, 20, "stop"),
        ({"stop": "engine"}, 5, "stop"),
        ({"stop": ["This"]}, 1, "stop"),
    ],
)
async def test_limits(limits: dict[str, Any], tokens: int, reason: str) -> None:
    async with running() as engine:
        _, whole = await ask(engine, "POST", "/v1/chat/completions", {**HELLO, **limits})
        assert whole["usage"]["completion_tokens"] == tokens
        assert whole["choices"][0]["finish_reason"] == reason
        events = await stream(engine, "/v1/chat/completions", {**HELLO, **limits})
        text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
        assert text == whole["choices"][0]["message"]["content"]
        assert events[-1]["choices"][0]["finish_reason"] == reason


async def test_stream_interval_and_bursts() -> None:
    async with running(Options(output_tokens=11, stream_interval=4, burst_events=3)) as engine:
        events = await stream(engine, "/v1/chat/completions", HELLO)
        assert len(events) == 5  # role, three times text, end
        _, whole = await ask(engine, "POST", "/v1/chat/completions", HELLO)
        text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
        assert text == whole["choices"][0]["message"]["content"]


async def test_completions() -> None:
    async with running() as engine:
        body = {"prompt": ["one", "two"], "n": 2, "echo": True, "max_tokens": 6}
        _, whole = await ask(engine, "POST", "/v1/completions", body)
        assert whole["object"] == "text_completion"
        texts = [choice["text"] for choice in whole["choices"]]
        assert [text[:7] for text in texts] == ["oneThis", "oneThis", "twoThis", "twoThis"]
        events = await stream(engine, "/v1/completions", body)
        found = [""] * 4
        for event in events:
            found[event["choices"][0]["index"]] += event["choices"][0]["text"]
        assert found == texts
        _, ids = await ask(engine, "POST", "/v1/completions", {"prompt": [1, 2, 3]})
        assert ids["usage"]["prompt_tokens"] == 3
        assert ids["usage"]["completion_tokens"] == 12


async def test_generate() -> None:
    async with running() as engine:
        body = {"text": "one", "sampling_params": {"max_new_tokens": 7}}
        _, whole = await ask(engine, "POST", "/generate", body)
        assert whole["meta_info"]["finish_reason"] == {"type": "length", "length": 7}
        assert whole["meta_info"]["completion_tokens"] == 7
        events = await stream(engine, "/generate", body)
        assert [event["meta_info"]["completion_tokens"] for event in events] == [1, 2, 3, 4, 5, 6, 7, 7]
        assert all(whole["text"].startswith(event["text"]) for event in events)
        assert events[-1]["text"] == whole["text"]
        _, batch = await ask(engine, "POST", "/generate", {"input_ids": [[1, 2], [3]]})
        assert [one["meta_info"]["prompt_tokens"] for one in batch] == [2, 1]
        assert (await ask(engine, "POST", "/generate", {}))[0] == 400
    async with running(Options(kind="vllm")) as engine:
        assert (await ask(engine, "POST", "/generate", body))[0] == 404


async def test_prefix_cache_shows_in_usage_and_can_be_flushed() -> None:
    async with running() as engine:
        turn = [{"role": "user", "content": "tell me more about this place " * 20}]
        body: dict[str, Any] = {"messages": turn}
        path = "/v1/chat/completions"

        async def cached(body: object) -> int:
            usage = (await ask(engine, "POST", path, body))[1]["usage"]
            tokens: int = usage["prompt_tokens_details"]["cached_tokens"]
            assert tokens <= usage["prompt_tokens"]
            return tokens

        _, first = await ask(engine, "POST", path, body)
        again = await cached(body)
        assert again >= first["usage"]["prompt_tokens"] - 16
        answer = first["choices"][0]["message"]
        longer = {"messages": [*turn, answer, {"role": "user", "content": "and then?"}]}
        assert await cached(longer) > again  # the answer was held too
        assert (await ask(engine, "POST", "/flush_cache"))[0] == 200
        assert (await ask(engine, "GET", "/sim/state"))[1]["cached_tokens"] == 0
        assert await cached(body) == 0


@pytest.mark.parametrize("kind", ["sglang", "vllm", "generic"])
async def test_scores(kind: Any) -> None:
    async with running(Options(kind=kind, embedding_dims=8)) as engine:
        _, found = await ask(engine, "POST", "/v1/embeddings", {"input": ["a", "b", "a"]})
        vectors = [row["embedding"] for row in found["data"]]
        assert [len(vector) for vector in vectors] == [8, 8, 8]
        assert vectors[0] == vectors[2] != vectors[1]
        assert sum(value * value for value in vectors[0]) == pytest.approx(1)
        _, found = await ask(
            engine, "POST", "/v1/rerank", {"query": "q", "documents": ["a", "b", "c"], "top_n": 2}
        )
        rows = found if kind == "sglang" else found["results"]
        scores = [row["score" if kind == "sglang" else "relevance_score"] for row in rows]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)
        pair: dict[str, Any] = {"text_1": "a", "text_2": ["b", "c"]}
        if kind == "sglang":
            pair = {"query": "q", "items": ["a", "b"], "label_token_ids": [1, 2]}
        _, found = await ask(engine, "POST", "/v1/score", pair)
        assert len(found["scores"] if kind == "sglang" else found["data"]) == 2
        _, found = await ask(engine, "POST", "/classify", {"input": "a"})
        assert sum(found["data"][0]["probs"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/chat/completions", b"{", 400, "truncated"),
        ("/v1/chat/completions", b'"x"', 400, "Expected `object`"),
        ("/v1/chat/completions", b'{"messages":[]}', 400, "length >= 1"),
        ("/v1/chat/completions", b"[" * 100000, 400, ""),
        ("/v1/chat/completions", b'{"messages":[{"role":"user","content":"\xff"}]}', 400, ""),
        ("/v1/chat/completions", b'{"messages":[{"role":"u"}],"n":129}', 400, "<= 128"),
        ("/v1/completions", b'{"prompt":[]}', 400, "must not be empty"),
        ("/v1/completions", b'{"prompt":[1,"a"]}', 400, "token IDs"),
        ("/v1/completions", b'{"prompt":[-1]}', 400, "no token ID"),
        ("/v1/completions", b'{"prompt":"' + b"x" * 4000 + b'"}', 400, "maximum context length is 100"),
        ("/v1/chat/completions", b'{"model":"other","messages":[{"role":"user"}]}', 404, "does not exist"),
        ("/v1/embeddings", b'{"input":"a","dimensions":0}', 400, "dimensions"),
        ("/v1/rerank", b'{"query":"a","documents":[]}', 400, "must not be empty"),
    ],
)
async def test_refuses(path: str, body: bytes, status: int, says: str) -> None:
    async with running(Options(kind="vllm", context_tokens=100)) as engine:
        got, answer = await ask(engine, "POST", path, body)
        assert (got, answer["error"]["code"]) == (status, status)
        assert says in answer["error"]["message"]
        assert (await ask(engine, "GET", path))[0] == 405
        assert (await ask(engine, "GET", "/sim/state"))[1]["running"] == 0


async def test_key() -> None:
    async with running(Options(api_key="k")) as engine:
        assert (await ask(engine, "GET", "/health"))[0] == 200
        assert (await ask(engine, "GET", "/v1/models"))[0] == 401
        assert (await ask(engine, "GET", "/v1/models", None, "Authorization: Bearer x\r\n"))[0] == 401
        assert (await ask(engine, "GET", "/v1/models", None, "Authorization: Bearer k\r\n"))[0] == 200


async def test_pipelined_requests_are_answered_in_order_on_one_connection() -> None:
    async with running() as engine:
        client = await Client.connect(engine)
        chat = {**HELLO, "stream": True}
        client.writer.write(
            encode("POST", "/v1/chat/completions", chat)
            + encode("GET", "/v1/models")
            + encode("POST", "/v1/chat/completions", HELLO, "Connection: close\r\n")
        )
        bodies = [(await client.answer())[2] for _ in range(3)]
        assert await client.rest() == b""
        await client.close()
        assert bodies[0].endswith(b"data: [DONE]\n\n")
        assert json.loads(bodies[1])["object"] == "list"
        assert json.loads(bodies[2])["object"] == "chat.completion"
        assert engine.state()["connections_seen"] == 1


async def test_http_1_0_gets_a_stream_without_chunks() -> None:
    async with running() as engine:
        client = await Client.connect(engine)
        data = json.dumps({**HELLO, "stream": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n"
        client.writer.write(head.encode() + data)
        status, fields = await client.head()
        assert (status, fields["connection"]) == (200, "close")
        assert "transfer-encoding" not in fields
        assert (await client.rest()).endswith(b"data: [DONE]\n\n")
        await client.close()


async def test_body_limit_and_malformed_bytes() -> None:
    async with running(Options(max_body_bytes=50)) as engine:
        # the answer arrives although the body was not read
        assert (await send(engine, encode("POST", "/v1/completions", b"x" * 5_000_000)))[0] == 413
        assert (await send(engine, b"nonsense\r\n\r\n"))[0] == 400
        await until(lambda: engine.state()["connections_open"] == 0)


async def test_continue() -> None:
    async with running() as engine:
        client = await Client.connect(engine)
        data = encode("POST", "/v1/chat/completions", HELLO, "Expect: 100-continue\r\n")
        at = data.index(b"\r\n\r\n") + 4
        client.writer.write(data[:at])
        assert (await client.head())[0] == 100
        client.writer.write(data[at:])
        assert (await client.answer())[0] == 200
        await client.close()


async def test_idle_connections_are_closed() -> None:
    async with running(Options(idle_secs=0.01)) as engine:
        client = await Client.connect(engine)
        assert await client.rest() == b""
        await client.close()


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_stops_the_work(is_stream: bool) -> None:
    async with running(Options(decode_tps=1000, output_tokens=10**6, context_tokens=10**7)) as engine:
        client = await Client.connect(engine)
        client.writer.write(encode("POST", "/v1/chat/completions", {**HELLO, "stream": is_stream}))
        if is_stream:
            await client.head()
            await client.chunk()
        await until(lambda: engine.state()["running"] == 1)
        await client.close()
        await until(lambda: engine.state()["disconnects"] == 1)
        state = engine.state()
        assert (state["running"], state["finished"]) == (0, 0)
        assert state["last_disconnect"]["path"] == "/v1/chat/completions"
        assert (state["last_disconnect"]["events_sent"] > 0) is is_stream


async def test_a_slow_reader_is_waited_for() -> None:
    async with running(Options(output_tokens=100_000, context_tokens=10**6)) as engine:
        client = await Client.connect(engine)
        client.writer.write(encode("POST", "/v1/chat/completions", {**HELLO, "stream": True}))
        await client.head()
        # others are served while this one is stuck
        for _ in range(3):
            assert (await ask(engine, "POST", "/v1/chat/completions", {**HELLO, "max_tokens": 1}))[0] == 200
        size = 0
        while chunk := await client.chunk():
            size += chunk.count(b"\n\n")
        assert size == 100_003
        await client.close()


async def test_queue_limit() -> None:
    async with running(Options(decode_tps=0.001, max_running=1, max_waiting=1)) as engine:
        clients = [await Client.connect(engine) for _ in range(2)]
        for at, client in enumerate(clients, 1):
            client.writer.write(encode("POST", "/v1/chat/completions", HELLO))
            await until(lambda at=at: engine.state()["running"] + engine.state()["waiting"] == at)
        status, answer = await ask(engine, "POST", "/v1/chat/completions", HELLO)
        assert (status, answer["message"]) == (503, "The request queue is full.")
        _, loads = await ask(engine, "GET", "/v1/loads")
        assert (loads["loads"][0]["num_running_reqs"], loads["loads"][0]["num_waiting_reqs"]) == (1, 1)
        assert loads["loads"][0]["num_used_tokens"] > 0
        for client in clients:
            await client.close()
        await until(lambda: engine.state()["disconnects"] == 2)
        assert (engine.state()["running"], engine.state()["waiting"]) == (0, 0)


async def test_fault_status_and_delay() -> None:
    faults = (parse("delay,seconds=0.001"), parse("status,status=500,requests=1"))
    async with running(Options(faults=faults)) as engine:
        assert (await ask(engine, "POST", "/v1/chat/completions", HELLO))[0] == 500
        assert (await ask(engine, "POST", "/v1/chat/completions", HELLO))[0] == 200
        assert (await ask(engine, "GET", "/health"))[0] == 200
        assert [fault["fired"] for fault in (await ask(engine, "GET", "/sim/faults"))[1]] == [2, 1]


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("words", ["reset", "cut,how=reset,after_events=3"])
async def test_fault_reset(words: str, is_stream: bool) -> None:
    async with running(Options(faults=(parse(words),))) as engine:
        client = await Client.connect(engine)
        client.writer.write(encode("POST", "/v1/chat/completions", {**HELLO, "stream": is_stream}))
        if words != "reset":
            await client.head()
            if is_stream:
                events = [await client.chunk() for _ in range(3)]
                assert all(event.startswith(b"data: ") for event in events)
        with pytest.raises(ConnectionResetError):
            while await client.reader.read(1):
                pass
        await client.close()
        await until(lambda: engine.state()["connections_open"] == 0)
        assert (engine.state()["running"], engine.state()["disconnects"]) == (0, 0)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("words", ["close", "cut,how=close,after_events=3"])
async def test_fault_close(words: str, is_stream: bool) -> None:
    async with running(Options(faults=(parse(words),))) as engine:
        client = await Client.connect(engine)
        client.writer.write(encode("POST", "/v1/chat/completions", {**HELLO, "stream": is_stream}))
        got = await client.rest()
        await client.close()
        if words == "close":
            assert got == b""
        elif is_stream:
            assert got.count(b"data: ") == 3
            assert not got.endswith(b"0\r\n\r\n")
        else:
            head, _, body = got.partition(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            assert len(body) == length // 2


@pytest.mark.parametrize("words", ["stall", "cut,how=stall,after_events=2"])
async def test_fault_stall_lasts_until_the_client_leaves(words: str) -> None:
    async with running(Options(faults=(parse(words),), idle_secs=0.01)) as engine:
        client = await Client.connect(engine)
        client.writer.write(encode("POST", "/v1/chat/completions", {**HELLO, "stream": True}))
        if words != "stall":
            await client.head()
            assert [(await client.chunk())[:5] for _ in range(2)] == [b"data:"] * 2
        await until(lambda: engine.state()["requests_seen"] == 1)
        idle = await Client.connect(engine)
        assert await idle.rest() == b""  # longer than idle connections are kept
        await idle.close()
        assert (engine.state()["running"], engine.state()["connections_open"]) == (0, 1)
        client.writer.write_eof()
        assert await client.rest() == b""
        await client.close()
        await until(lambda: engine.state()["connections_open"] == 0)


async def test_fault_on_probes_and_at_run_time() -> None:
    async with running() as engine:
        fault = {"kind": "status", "status": 503, "on": "probes"}
        assert (await ask(engine, "POST", "/sim/faults", fault))[0] == 200
        assert (await ask(engine, "GET", "/health"))[0] == 503
        assert (await ask(engine, "POST", "/v1/chat/completions", HELLO))[0] == 200
        assert (await ask(engine, "POST", "/sim/faults", {"kind": "boom"}))[0] == 400
        assert (await ask(engine, "POST", "/sim/faults", []))[0] == 200
        assert (await ask(engine, "GET", "/health"))[0] == 200
        assert (await ask(engine, "GET", "/sim/elsewhere"))[0] == 404


async def test_a_client_that_leaves_during_a_delay() -> None:
    async with running(Options(faults=(parse("delay,seconds=60"),))) as engine:
        client = await Client.connect(engine)
        client.writer.write(encode("POST", "/v1/chat/completions", HELLO))
        await until(lambda: engine.state()["requests_seen"] == 1)
        await client.close()
        await until(lambda: engine.state()["disconnects"] == 1)


async def test_vllm_metrics() -> None:
    async with running(Options(kind="vllm", models=('a"b',))) as engine:
        await ask(engine, "POST", "/v1/chat/completions", HELLO)
        _, text = await ask(engine, "GET", "/metrics")
        lines = text.decode().splitlines()
        assert 'vllm:num_requests_running{engine="0",model_name="a\\"b"} 0.0' in lines
        assert 'vllm:generation_tokens_total{engine="0",model_name="a\\"b"} 32.0' in lines
