"""A mock engine that does no work: `python -m benches.load.engine PORT ... --events N --interval-ms X`.

It answers a worker's probes, a fixed body to a plain request and, where the body asks for a stream,
events at a fixed interval, each in a write of its own. Several ports share one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json

import uvloop

from benches import inputs

INFO = {"model_path": inputs.MODEL, "served_model_name": inputs.MODEL, "version": "0.5.21"}
MODELS = {"object": "list", "data": [{"id": inputs.MODEL, "object": "model", "owned_by": "sglang"}]}


def reply(content: object) -> bytes:
    body = json.dumps(content).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


# By what the path contains; the first that fits.
REPLIES = (
    (b"models", reply(MODELS)),
    (b"info", reply(INFO)),
    (b"load", reply([{"dp_rank": 0, "num_reqs": 0, "num_waiting_reqs": 0, "num_tokens": 0}])),
    (b"", reply({})),
)


class Engine(asyncio.Protocol):
    """One connection."""

    def __init__(self, events: int, interval_s: float) -> None:
        self._events = events
        self._interval_s = interval_s
        self._left = 0
        self._buffer = bytearray()
        self._answer = inputs.answer()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).lower()
            total = self._message_end(head, end)
            if total < 0 or len(self._buffer) < total:
                return
            body = bytes(self._buffer[end + 4 : total])
            del self._buffer[:total]
            self._reply(head.split(b" ", 2)[1], body)

    def _message_end(self, head: bytes, end: int) -> int:
        """Where the message ends, or -1 when that is not known yet."""
        at = head.find(b"\r\ncontent-length:")
        if at >= 0:
            return end + 4 + int(head[at + 17 :].split(b"\r\n", 1)[0])
        if b"transfer-encoding: chunked" not in head:
            return end + 4
        last = self._buffer.find(b"0\r\n\r\n", end)
        return last + 5 if last >= 0 else -1

    def _reply(self, path: bytes, body: bytes) -> None:
        if b"completions" not in path:
            self._transport.write(next(whole for part, whole in REPLIES if part in path))
        elif b'"stream": true' in body or b'"stream":true' in body:
            self._transport.write(inputs.STREAM_HEAD)
            self._left = self._events
            self._loop.call_later(self._interval_s, self._tick)
        else:
            self._transport.write(self._answer)

    def _tick(self) -> None:
        if self._transport.is_closing():
            return
        if self._left:
            self._left -= 1
            self._transport.write(inputs.EVENT)
            self._loop.call_later(self._interval_s, self._tick)
        else:
            self._transport.write(inputs.STREAM_END)


async def run(ports: list[int], events: int, interval_s: float) -> None:
    loop = asyncio.get_running_loop()
    for port in ports:
        await loop.create_server(lambda: Engine(events, interval_s), "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.load.engine", description=__doc__)
    parser.add_argument("ports", nargs="+", type=int)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--interval-ms", type=float, default=2.0)
    given = parser.parse_args()
    uvloop.run(run(given.ports, given.events, given.interval_ms / 1000))


if __name__ == "__main__":
    main()
