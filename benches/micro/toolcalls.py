"""`smg.text.tools`: a stream in pieces of four characters, as engines send them; times are for one piece."""

import json

import pyperf

from benches.inputs import text
from smg.text.tools import PARSERS
from smg.text.tools.values import Schemas

PIECE = 4
SCHEMAS = Schemas({"write": {"properties": {"path": {"type": "string"}, "content": {"type": "string"}}}})
ARGUMENTS = {"path": "notes.txt", "content": text(2000), "mode": [1, 2, {"append": True}]}
CALL = json.dumps({"name": "write", "arguments": ARGUMENTS})
XML = f"<parameter=path>\nnotes.txt\n</parameter>\n<parameter=content>\n{text(2000)}\n</parameter>\n"
STREAMS = {
    "content, qwen": ("qwen", text(2000)),
    "content, json": ("json", text(2000)),
    "call, json": ("json", CALL),
    "call, qwen": ("qwen", f"<tool_call>\n{CALL}\n</tool_call>"),
    "call, qwen_xml": ("qwen_xml", f"<tool_call>\n<function=write>\n{XML}</function>\n</tool_call>"),
    "call, pythonic": ("pythonic", f"[write(path='notes.txt', content='{text(2000)}')]"),
}


def parse(loops: int, name: str, pieces: list[str]) -> float:
    start = pyperf.perf_counter()
    for _ in range(loops):
        parser = PARSERS[name](SCHEMAS)
        for piece in pieces:
            parser.push(piece)
        parser.finish()
    return pyperf.perf_counter() - start


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.toolcalls"))
    for title, (name, said) in STREAMS.items():
        pieces = [said[at : at + PIECE] for at in range(0, len(said), PIECE)]
        runner.bench_time_func(title, parse, name, pieces, inner_loops=len(pieces))


if __name__ == "__main__":
    main()
