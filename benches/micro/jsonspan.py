"""`smg._fast.jsonspan`: checking a body and cutting one member out of it, beside msgspec decoding it."""

import msgspec
import pyperf

from benches import inputs
from smg._fast.jsonspan import members

SIZES = {"2 kB": 1_600, "64 kB": 64_000, "1 MB": 1_000_000}


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.jsonspan"))
    decode = msgspec.json.Decoder().decode
    for name, size in SIZES.items():
        body = inputs.chat(size)
        found = members(body)
        assert found is not None
        runner.bench_func(f"members, {name}", members, body)
        runner.bench_func(f"replace, {name}", found.replace, b"model", b'"another"')
        runner.bench_func(f"msgspec decode, {name}", decode, body)


if __name__ == "__main__":
    main()
