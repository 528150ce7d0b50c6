"""For how long the loop is kept from running while a large body is decoded in a thread.

What is told is the longest time between two turns of a loop that has nothing else to do, for bodies that are
made to take long. Waits for a processor are left out as far as the kernel tells of them: measure on an idle
machine all the same.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyperf
import uvloop

from smg._fast.freeing import free_texts
from smg.api.call import decode
from smg.api.decisions import Decisions
from smg.api.decisions_systemone import request_body
from smg.api.surfaces import SURFACES, Surface
from smg.errors import GatewayError
from smg.gateway.admit import DECODERS
from smg.server.lifecycle import SWITCH_INTERVAL_S

MANY = 100_000
SURFACE = {surface.endpoint: surface for surface in reversed(SURFACES)}
USER = {"role": "user", "content": "hi"}


def chat(*messages: object, model: str = "m", **members: object) -> bytes:
    return json.dumps({"model": model, "messages": messages, **members}).encode()


def tool(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


def call(number: int) -> dict[str, object]:
    return {"id": f"c{number}", "function": {"name": "f", "arguments": '{"a":1}'}}


def turn(number: int) -> list[dict[str, object]]:
    answer = {"role": "tool", "tool_call_id": f"c{number}", "content": "r"}
    return [{"role": "assistant", "tool_calls": [call(number)]}, answer]


def members(count: int) -> bytes:
    return b",".join(b'"k%d":1' % number for number in range(count))


ASKED = {"type": "predicate", "instructions": "x"}
OPTIONS = {"type": "choice", "instructions": "x", "choices": [{"value": "a"}] * 255}


def decisions(**members: object) -> bytes:
    return json.dumps({"model": "m", "input": "late", "questions": [ASKED], **members}).encode()


# Each made when it is its turn: together they are large.
BODIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "30 MB of text": ("chat", lambda: chat({**USER, "content": "h" * 30_000_000}, max_tokens=3)),
    "messages": ("chat", lambda: chat(*[USER] * MANY)),
    "renamed and removed members": (
        "chat",
        lambda: chat(*[{"role": "assistant", "reasoning": "y", "tools": 1}] * MANY),
    ),
    "tools on Kimi's messages": (
        "chat",
        lambda: chat(*({"role": "system", "tools": [tool(f"f{i}")]} for i in range(MANY)), model="kimi"),
    ),
    "tools refused on Kimi's messages": (
        "chat",
        lambda: chat(*[{"role": "tool", "content": "", "tool_call_id": "", "tools": 1}] * MANY, model="kimi"),
    ),
    "MiniMax's calls and answers": (
        "chat",
        lambda: chat(*(message for i in range(MANY // 2) for message in turn(i)), model="minimax"),
    ),
    "MiniMax's root messages": (
        "chat",
        lambda: chat(USER, *[{"role": "root", "content": "x", "tools": 1}] * MANY, model="minimax"),
    ),
    "GLM's tools": ("chat", lambda: chat(USER, model="glm-5", tools=[tool(f"f{i}") for i in range(MANY)])),
    "a chosen tool that is not there": (
        "chat",
        lambda: chat(USER, tools=[tool(f"f{i}") for i in range(MANY)], tool_choice=tool("g")),
    ),
    "a chosen tool with a long name": (
        "chat",
        lambda: chat(USER, tools=[tool("f")], tool_choice=tool("g" * 30_000_000)),
    ),
    "unknown members": ("chat", lambda: chat(USER)[:-1] + b"," + members(10 * MANY) + b"}"),
    "members that lack one": ("chat", lambda: b"{" + members(10 * MANY) + b"}"),
    "a repeated member that is removed": (
        "chat",
        lambda: chat(USER, model="glm-5")[:-1] + b',"tool\\u005fstream":1' * MANY + b"}",
    ),
    "a fault behind many lines": ("chat", lambda: b"\n" * 30_000_000 + b"x"),
    "stop sequences": ("chat", lambda: chat(USER, stop=["a"] * 10 * MANY)),
    "logit biases": ("chat", lambda: chat(USER, logit_bias={str(i): 0 for i in range(10 * MANY)})),
    "prompts": ("completions", lambda: json.dumps({"model": "m", "prompt": ["x"] * 10 * MANY}).encode()),
    "token IDs": ("generate", lambda: json.dumps({"input_ids": list(range(10 * MANY))}).encode()),
    "members of a response": (
        "responses",
        lambda: b'{"model":"m","input":"x",' + members(10 * MANY) + b"}",
    ),
    "10 MB of text to decide on": ("decisions", lambda: decisions(input="h" * 10_000_000)),
    "questions": ("decisions", lambda: decisions(questions=[ASKED] * MANY)),
    "choices of questions": ("decisions", lambda: decisions(questions=[OPTIONS] * (MANY // 255))),
    "messages to decide on": ("decisions", lambda: decisions(input=[USER] * MANY)),
    "unknown members of Decisions": (
        "decisions",
        lambda: decisions()[:-1] + b"," + members(10 * MANY) + b"}",
    ),
    "a misfit behind many questions": ("decisions", lambda: decisions(questions=[*[ASKED] * MANY, {}])),
}


class Watch:
    """Turns a loop as fast as it goes, and notes the longest turn in seconds."""

    def __init__(self, other: int) -> None:
        self.longest = 0.0
        self._clocks = [time.pthread_getcpuclockid(one) for one in (threading.get_ident(), other)]
        self._waits = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._last = self._read()
        self._loop.call_soon(self._turn)

    def stop(self) -> None:
        self._stopped = True
        os.close(self._waits)

    def _read(self) -> tuple[float, float]:
        """The time without this thread's waits for a processor, and what both threads have computed."""
        waited = int(os.pread(self._waits, 100, 0).split()[1]) / 1e9
        return time.perf_counter() - waited, sum(map(time.clock_gettime, self._clocks))

    def _turn(self) -> None:
        if self._stopped:
            return
        now = self._read()
        self.longest = max(self.longest, min(now[0] - self._last[0], now[1] - self._last[1]))
        self._last = self._read()
        self._loop.call_soon(self._turn)


def read(surface: Surface, body: bytes) -> None:
    try:
        call = DECODERS.get(surface.endpoint, decode)(surface, body, str)
        call.look_ahead()
        if isinstance(call, Decisions):
            free_texts([request_body(call)])
    except GatewayError:
        pass


async def held(surface: Surface, body: bytes) -> float:
    """The longest turn of the loop while the body is read, in seconds."""
    with ThreadPoolExecutor(1) as threads:
        watch = Watch(threads.submit(threading.get_ident).result())
        await asyncio.get_running_loop().run_in_executor(threads, read, surface, body)
        watch.stop()
    return watch.longest


def main() -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()  # as the gateway does when it is ready
    runner = pyperf.Runner(
        program_args=("-m", "benches.micro.held"), processes=3, values=3, warmups=1, loops=1
    )
    for name, (endpoint, make) in BODIES.items():
        made: list[bytes] = []

        def measure(
            loops: int, endpoint: str = endpoint, make: Any = make, made: list[bytes] = made
        ) -> float:
            if not made:
                made.append(make())
            return sum(uvloop.run(held(SURFACE[endpoint], made[0])) for _ in range(loops))

        runner.bench_time_func(f"loop held, {name}", measure)


if __name__ == "__main__":
    main()
