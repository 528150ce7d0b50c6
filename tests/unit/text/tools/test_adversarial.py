"""Texts made to cost: nothing grows but with the text, nothing recurses, nothing is held that need not be."""

from __future__ import annotations

import pytest

from smg.text.tools import PARSERS
from smg.text.tools.values import Schemas
from tests.unit.text.tools.telling import answer, cut

MIB = 1 << 20
# The longest mark, twice the longest header, and a piece.
HELD_CHARACTERS = 4096
SEEDS = [
    "<tool_call",
    "<tool_call>",
    '<tool_call>\n{"name":',
    "<tool_call>a\n<arg_key>",
    "<",
    "{",
    "[",
    '{"',
    "[{",
    "[f(",
    " ",
]
SEEDS += [
    '{"name":"a","arguments":[[[',
    '{"a":',
    "1",
    "\\",
    "[TOOL_CALLS] [{",
    "[f(a='",
    "[f(a=[",
    "<|message_model|>",
    "{};",
]
SEEDS += [
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a\n",
    '<｜DSML｜invoke name="',
    "<|open|>call ",
]
SEEDS += [
    "<minimax:tool_call>",
    '<parameter name="',
    "<|tool_calls_section_begin|><|tool_call_begin|>",
    "<|START_ACTION|>",
]

# A quadratic search would take minutes for these, which once had one or are the costliest.
COSTLY = [
    ("glm45_moe", "<tool_call>"),
    ("glm47_moe", "<tool_call><function=a>"),
    ("deepseek31", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"),
    ("kimik2", "<|tool_calls_section_begin|><|tool_call_begin|>"),
    ("minimax_m2", '<minimax:tool_call><invoke name="'),
    ("kimi_k3", "<|open|>tools<|sep|><|open|>call "),
    ("json", "[{"),
    ("json", '{"name":"a","arguments":1'),
    ("qwen", '<tool_call>\n{"name":'),
    ("qwen_xml", "<tool_call><function=a><parameter=b>"),
    ("pythonic", "[f("),
    ("sarashina", "<|tool_calls|>["),
]


@pytest.mark.parametrize(("name", "seed"), COSTLY)
def test_a_mebibyte_of_it(name: str, seed: str) -> None:
    text = seed * (MIB // len(seed))
    found = answer(name, text)
    assert len(found.text) <= len(text)


@pytest.mark.parametrize("name", PARSERS)
def test_little_is_read_again_however_long_it_lasts(name: str) -> None:
    for seed in SEEDS:
        parser = PARSERS[name](Schemas({}))
        for piece in cut(seed * (16384 // len(seed)), 29):
            parser.push(piece)
            assert len(parser.feed.text) - parser.feed.at < HELD_CHARACTERS
        parser.finish()


@pytest.mark.parametrize("opening", ["[", "{", '{"a":', '[{"a":', "(", "<", "'"])
@pytest.mark.parametrize("name", PARSERS)
def test_nesting(name: str, opening: str) -> None:
    nested = opening * 10_000
    prefixes = ["", '{"name":"f","arguments":', "[f(a=", '<tool_call>\n{"name":"f","arguments":']
    prefixes += ["<tool_call><function=f><parameter=k>", "<|tool_calls|>", "[TOOL_CALLS] [", "<tool_call>f\n"]
    for prefix in prefixes:
        assert not answer(name, prefix + nested).calls


@pytest.mark.parametrize(
    "digits", ["1" * 500_000, "-" * 500_000, "0x" + "f" * 300_000, "1e" * 100_000, "1_" * 100_000]
)
@pytest.mark.parametrize("name", PARSERS)
def test_numbers(name: str, digits: str) -> None:
    answer(name, f'{{"name":"f","arguments":{{"a":{digits}}}}}')
    answer(name, f"[f(a={digits})]")
    answer(name, f"<tool_call>f\n<arg_key>k</arg_key>\n<arg_value>{digits}</arg_value>\n</tool_call>", {})
    answer(name, f"<tool_call><function=f><parameter=k>{digits}</parameter></function></tool_call>", {})


def test_a_call_of_a_mebibyte_in_small_pieces() -> None:
    value = "word " * (MIB // 5)
    text = f'<tool_call>\n{{"name": "f", "arguments": {{"k": "{value}"}}}}\n</tool_call>'
    parser = PARSERS["qwen"](Schemas({}))
    said = [event for piece in cut(text, 64) for event in parser.push(piece)] + parser.finish()
    assert sum(len(getattr(event, "text", "")) for event in said) == len(value) + len('{"k":""}')
