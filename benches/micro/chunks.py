"""`smg._fast.chunks`: the chunked coding of events and of a large body."""

import pyperf

from benches import inputs
from smg._fast.chunks import ChunkReader

EVENTS = 64


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.chunks"))
    reader = ChunkReader()
    events = inputs.EVENT * EVENTS
    body = inputs.chunk(inputs.chat(1_000_000))
    runner.bench_func("one event", reader.feed, inputs.EVENT)
    runner.bench_func(f"{EVENTS} events at once, per event", reader.feed, events, inner_loops=EVENTS)
    runner.bench_func("a chunk of 1 MB", reader.feed, body)


if __name__ == "__main__":
    main()
