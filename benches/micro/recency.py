"""`smg._fast.recency`: a chat's text is compared with what eight workers hold, and given to one of them."""

from __future__ import annotations

import random
import time
from array import array

import pyperf

from benches.inputs import SEED
from smg._fast.recency import Recency

BLOCKS = 1 << 20
WORKERS = 8
REACHES = 41
ROUND = 32


def full_table(source: random.Random) -> Recency:
    """Texts of 1 to 16 kB; more of them than there is room for."""
    table, given = Recency(BLOCKS), 0
    while given < BLOCKS * 1.2:
        text = source.randbytes(source.randrange(1000, 16_000))
        path = table.path(text, array("q", [0, len(text)]))
        table.use(path, source.randrange(WORKERS), given)
        given += path.count
    return table


def compare_and_give(loops: int, size: int, known: bool) -> float:
    """Seconds for `loops` texts of two spans, each new, or each known to another worker."""
    source = random.Random(SEED)
    table = full_table(source)
    spans = array("q", [30, size // 2, size // 2 + 30, size])
    missing = array("i", bytes(4 * REACHES))
    floors = array("q", [0] * REACHES)
    spent, stamp = 0.0, 1 << 30
    for first in range(0, loops, ROUND):
        bodies = [source.randbytes(size) for _ in range(min(ROUND, loops - first))]
        if known:
            for body in bodies:
                table.use(table.path(body, spans), 0, stamp)
        begun = time.perf_counter()
        for body in bodies:
            path = table.path(body, spans)
            for worker in range(WORKERS):
                table.held(path, worker, 0)
            table.profile(path, 1, floors, missing)
            stamp += size
            table.use(path, 1, stamp)
        spent += time.perf_counter() - begun
    return spent


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.recency"))
    for size in (2000, 32_000, 1_000_000):
        runner.bench_time_func(f"new body of {size} bytes", compare_and_give, size, False)
        runner.bench_time_func(f"known body of {size} bytes", compare_and_give, size, True)
    if not runner.args.worker and not runner.args.quiet:
        table = full_table(random.Random(SEED))
        print(f"{table.count} blocks in {table.bytes} bytes: {table.bytes / table.count:.1f} bytes for each")


if __name__ == "__main__":
    main()
