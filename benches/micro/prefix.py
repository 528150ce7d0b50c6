"""`smg._fast.prefix`: the token hint and the hashes of a beginning."""

from array import array

import pyperf

from benches import inputs
from smg._fast.prefix import routing_tokens, text_hash, token_hash, token_hashes


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.prefix"))
    hint = b",".join(b"%d" % (number * 37) for number in range(512))
    tokens = array("I", range(8192))
    body = inputs.text(16_000).encode()
    spans = array("q", [0, 500, 500, len(body)])
    runner.bench_func("hint of 512 ids", routing_tokens, hint)
    runner.bench_func("hash of 256 tokens", token_hash, tokens, 256)
    runner.bench_func("hashes at 4 boundaries", token_hashes, tokens, (512, 1024, 2048, 4096))
    runner.bench_func("hash of 1024 characters", text_hash, body, spans, 1024)


if __name__ == "__main__":
    main()
