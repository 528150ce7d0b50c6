"""`smg._fast.textindex`: a chat's text is looked up and added, in an index that is full."""

from __future__ import annotations

import random
import time
from array import array

import pyperf

from benches.inputs import SEED
from smg._fast.textindex import TextIndex

INDEX_BYTES = 64 << 20
WORKERS = 8
ROUND = 32


def full_index(source: random.Random) -> TextIndex:
    """Texts of 1 to 16 kB; more of them than there is room for."""
    index = TextIndex(INDEX_BYTES)
    inserted = 0
    while inserted < INDEX_BYTES * 1.2:
        text = source.randbytes(source.randrange(1000, 16_000))
        index.insert(text, array("q", [0, len(text)]), source.randrange(WORKERS))
        inserted += len(text)
    return index


def look_up_and_add(loops: int, size: int, known: bool) -> float:
    """Seconds for `loops` texts of two spans, each new, or each known to another worker."""
    source = random.Random(SEED)
    index = full_index(source)
    spans = array("q", [30, size // 2, size // 2 + 30, size])
    spent = 0.0
    for first in range(0, loops, ROUND):
        bodies = [source.randbytes(size) for _ in range(min(ROUND, loops - first))]
        if known:
            for body in bodies:
                index.insert(body, spans, 0)
        begun = time.perf_counter()
        for body in bodies:
            index.best(body, spans)
            index.insert(body, spans, 1)
        spent += time.perf_counter() - begun
    return spent


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.textindex"))
    for size in (2000, 32_000, 1_000_000):
        runner.bench_time_func(f"new body of {size} bytes", look_up_and_add, size, False)
        runner.bench_time_func(f"known body of {size} bytes", look_up_and_add, size, True)
    if not runner.args.worker and not runner.args.quiet:
        index = full_index(random.Random(SEED))
        per_16 = index.bytes / index.size * 16
        print(f"{index.size} bytes of text in {index.bytes} bytes: {per_16:.2f} bytes for 16 of text")


if __name__ == "__main__":
    main()
