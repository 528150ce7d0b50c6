"""`smg._fast.usage`: reading what an answer cost, an event and a whole answer at a time."""

import json

import pyperf

from smg._fast.usage import UsageMeter, guess_tokens

EVENT = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}],
}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.usage"))
    meter = UsageMeter()
    event = b"data: " + json.dumps(EVENT).encode() + b"\n\n"
    runner.bench_func("event", meter.feed, event)
    runner.bench_func(
        "event with usage", meter.feed, event[:-3] + b',"usage":' + json.dumps(USAGE).encode() + b"}\n\n"
    )
    runner.bench_func(
        "answer, 64 kB", meter.feed, json.dumps({"x": "word " * 13_000, "usage": USAGE}).encode()
    )
    runner.bench_func("guess, 2 kB", guess_tokens, b"word " * 400, None)


if __name__ == "__main__":
    main()
