"""`smg._fast.radix`: a prompt of 8,192 tokens is looked up and added, in a full tree of 10 million tokens."""

from __future__ import annotations

import random
import time
from array import array

import pyperf

from benches.inputs import SEED
from smg._fast.radix import TokenTree

TREE_TOKENS = 10_000_000
PROMPT_TOKENS = 8192
WORKERS = 8
# Prompts are made in rounds, so that making them is not measured and takes little memory.
ROUND = 64


def ids(source: random.Random, size: int) -> array[int]:
    return array("I", source.randbytes(4 * size))


def full_tree(source: random.Random) -> TokenTree:
    """Prompts of 500 to 8,000 tokens, each third one sharing its beginning with an earlier one."""
    tree = TokenTree(TREE_TOKENS)
    stems: list[array[int]] = []
    inserted = 0
    while inserted < TREE_TOKENS * 1.2:
        prompt = ids(source, source.randrange(500, 8001))
        if len(stems) > 100 and source.randrange(3) == 0:
            prompt = source.choice(stems)[: source.randrange(400)] + prompt
        elif len(stems) < 1000:
            stems.append(prompt[:400])
        tree.insert(prompt, source.randrange(WORKERS))
        inserted += len(prompt)
    return tree


def look_up_and_add(loops: int, known: bool) -> float:
    """Seconds for `loops` prompts, each new, or each known to another worker."""
    source = random.Random(SEED)
    tree = full_tree(source)
    spent = 0.0
    for first in range(0, loops, ROUND):
        prompts = [ids(source, PROMPT_TOKENS) for _ in range(min(ROUND, loops - first))]
        if known:
            for prompt in prompts:
                tree.insert(prompt, 0)
        begun = time.perf_counter()
        for prompt in prompts:
            tree.best(prompt)
            tree.insert(prompt, 1)
        spent += time.perf_counter() - begun
    return spent


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.radix"))
    runner.bench_time_func("new prompt of 8192 tokens among 10 million", look_up_and_add, False)
    runner.bench_time_func("known prompt of 8192 tokens among 10 million", look_up_and_add, True)
    if not runner.args.worker and not runner.args.quiet:
        tree = full_tree(random.Random(SEED))
        print(f"{tree.tokens} tokens in {tree.bytes} bytes: {tree.bytes / tree.tokens:.2f} bytes each")


if __name__ == "__main__":
    main()
