"""Any arguments, written as each format writes them, cut anywhere: the calls come back, and the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smg.text.tools import PARSERS
from smg.text.tools.events import Arguments, Broken, Call, Text, whole
from smg.text.tools.values import Schemas
from tests.unit.text.tools.telling import answer, cut, events_of, streamed

Objects = dict[str, Any]
Calls = list[tuple[str, Objects]]

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="<>[]{}|｜&"), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | PLAIN
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,12}", fullmatch=True)
ANY_CALLS = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=3)), min_size=1, max_size=3)


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _listed(calls: Calls, name: str = "name", arguments: str = "arguments") -> str:
    return dumped([{name: called, arguments: passed} for called, passed in calls])


def _qwen(calls: Calls) -> str:
    one = "<tool_call>\n%s\n</tool_call>"
    return "\n".join(one % dumped({"name": name, "arguments": passed}) for name, passed in calls)


def _deepseek(calls: Calls) -> str:
    one = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>%s\n```json\n%s\n```<｜tool▁call▁end｜>"
    inside = "\n".join(one % (name, dumped(passed)) for name, passed in calls)
    return f"<｜tool▁calls▁begin｜>{inside}<｜tool▁calls▁end｜>"


def _deepseek31(calls: Calls) -> str:
    one = "<｜tool▁call▁begin｜>%s<｜tool▁sep｜>%s<｜tool▁call▁end｜>"
    inside = "".join(one % (name, dumped(passed)) for name, passed in calls)
    return f"<｜tool▁calls▁begin｜>{inside}<｜tool▁calls▁end｜>"


def _kimik2(calls: Calls) -> str:
    one = "<|tool_call_begin|>functions.%s:%d<|tool_call_argument_begin|>%s<|tool_call_end|>"
    inside = "".join(one % (name, at, dumped(passed)) for at, (name, passed) in enumerate(calls))
    return f"<|tool_calls_section_begin|>{inside}<|tool_calls_section_end|>"


def _inkling(calls: Calls) -> str:
    one = "<|content_invoke_tool_json|>%s<|end_message|>"
    return "".join(one % dumped({"name": name, "args": passed}) for name, passed in calls)


def _pythonic(calls: Calls) -> str:
    said = (
        name + "(" + ", ".join(f"{key}={value!r}" for key, value in passed.items()) + ")"
        for name, passed in calls
    )
    return "[" + ", ".join(said) + "]"


def _typed(calls: Calls, opening: str, one: str, parameter: str, closing: str) -> str:
    """Formats that say of each value whether it is a string or JSON."""
    said = ""
    for name, passed in calls:
        values = "".join(
            parameter.format(
                key=key,
                string="true" if isinstance(value, str) else "false",
                kind="string" if isinstance(value, str) else "object",
                value=value if isinstance(value, str) else dumped(value),
            )
            for key, value in passed.items()
        )
        said += one.format(name=name, values=values)
    return opening + said + closing


def _deepseek32(calls: Calls) -> str:
    return _typed(
        calls,
        "<｜DSML｜function_calls>\n",
        '<｜DSML｜invoke name="{name}">\n{values}</｜DSML｜invoke>\n',
        '<｜DSML｜parameter name="{key}" string="{string}">{value}</｜DSML｜parameter>\n',
        "</｜DSML｜function_calls>",
    )


def _kimi_k3(calls: Calls) -> str:
    return _typed(
        calls,
        "<|open|>tools<|sep|>",
        '<|open|>call tool="{name}" index="1"<|sep|>{values}<|close|>call<|sep|>',
        '<|open|>argument key="{key}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>',
        "<|close|>tools<|sep|>",
    )


WRITERS: dict[str, Callable[[Calls], str]] = {
    "json": _listed,
    "llama": lambda calls: "<|python_tag|>" + ";".join(_listed([call])[1:-1] for call in calls),
    "qwen": _qwen,
    "mistral": lambda calls: "[TOOL_CALLS] " + _listed(calls),
    "cohere": lambda calls: f"<|START_ACTION|>\n{_listed(calls, 'tool_name', 'parameters')}\n<|END_ACTION|>",
    "deepseek": _deepseek,
    "deepseek31": _deepseek31,
    "deepseek32": _deepseek32,
    "kimik2": _kimik2,
    "kimi_k3": _kimi_k3,
    "inkling": _inkling,
    "pythonic": _pythonic,
    "sarashina": lambda calls: "<|tool_calls|>" + repr([{"name": n, "arguments": a} for n, a in calls]),
}


@pytest.mark.parametrize("name", WRITERS)
@given(calls=ANY_CALLS, before=st.sampled_from(["", "Ok. "]), size=st.integers(1, 9))
def test_calls_come_back(name: str, calls: Calls, before: str, size: int) -> None:
    text = before + WRITERS[name](calls)
    for found in (answer(name, text, {}), streamed(name, cut(text, size))):
        assert found.text.rstrip() == before.rstrip()
        assert [(called, json.loads(passed)) for called, passed in found.calls] == calls


STRINGS = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, PLAIN, max_size=3)), min_size=1, max_size=2)
TAGGED = {
    "qwen_xml": (
        "",
        "<tool_call>\n<function={}>\n",
        "<parameter={}>\n{}\n</parameter>\n",
        "</function>\n</tool_call>\n",
        "",
    ),
    "glm45_moe": (
        "",
        "<tool_call>{}\n",
        "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n",
        "</tool_call>\n",
        "",
    ),
    "glm47_moe": ("", "<tool_call>{}", "<arg_key>{}</arg_key><arg_value>{}</arg_value>", "</tool_call>", ""),
    "minimax_m2": (
        "<minimax:tool_call>\n",
        '<invoke name="{}">\n',
        '<parameter name="{}">{}</parameter>\n',
        "</invoke>\n",
        "</minimax:tool_call>",
    ),
    "step3": (
        "<｜tool_calls_begin｜>",
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{}">',
        '<steptml:parameter name="{}">{}</steptml:parameter>',
        "</steptml:invoke><｜tool_call_end｜>",
        "<｜tool_calls_end｜>",
    ),
}


@pytest.mark.parametrize("name", TAGGED)
@given(calls=STRINGS, size=st.integers(1, 9))
def test_strings_between_tags_come_back_to_the_letter(
    name: str, calls: list[tuple[str, dict[str, str]]], size: int
) -> None:
    # A value that is itself a JSON string is taken for what it says.
    assume(not any(value.startswith('"') for _, passed in calls for value in passed.values()))
    opening, call, value, end, closing = TAGGED[name]
    said = "".join(
        call.format(called) + "".join(value.format(*pair) for pair in passed.items()) + end
        for called, passed in calls
    )
    properties = {key: {"type": "string"} for _, passed in calls for key in passed}
    schemas = {called: {"properties": properties} for called, _ in calls}
    for pieces in ([opening + said + closing], cut(opening + said + closing, size)):
        found = whole(events_of(name, pieces, schemas), keeps_rest=False)
        assert [(called, json.loads(passed)) for called, passed in found.calls] == calls


SCRAPS = [
    "<tool_call>",
    "</tool_call>",
    '{"name":',
    '"f",',
    '"arguments":{',
    "}",
    "]",
    "[",
    "\n",
    "<",
    "x",
    '"',
    ",",
    "1",
]
SCRAPS += [
    "<function=f>",
    "<parameter=k>",
    "</parameter>",
    "</function>",
    "f\n",
    "<arg_key>k</arg_key>",
    "<arg_value>",
]
SCRAPS += [
    "</arg_value>",
    "[TOOL_CALLS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "function<｜tool▁sep｜>f\n",
]
SCRAPS += [
    "```json\n{}\n```",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<｜DSML｜tool_calls>",
    "<minimax:tool_call>",
]
SCRAPS += [
    '<｜DSML｜invoke name="f">',
    "</｜DSML｜invoke>",
    '<invoke name="f">',
    "</invoke>",
    "</minimax:tool_call>",
    "{}",
]
SCRAPS += [
    "<|open|>tools<|sep|>",
    '<|open|>call tool="f"<|sep|>',
    "<|close|>call<|sep|>",
    "<|close|>tools<|sep|>",
]
SCRAPS += [
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "[f(a=",
    "'x'",
    ")",
    "<|python_tag|>",
    ";",
    "{'name': 'f'}",
    "<|tool_calls|>",
]


@pytest.mark.parametrize("name", PARSERS)
@given(scraps=st.lists(st.sampled_from(SCRAPS), max_size=14), size=st.integers(1, 7))
def test_scraps_mean_the_same_however_they_are_cut(name: str, scraps: list[str], size: int) -> None:
    text = "".join(scraps)
    at_once = answer(name, text)
    in_pieces = events_of(name, cut(text, size))
    assert whole(in_pieces, keeps_rest=PARSERS[name].KEEPS_REST) == at_once
    for _, arguments in at_once.calls:
        json.loads(arguments)


# Formats without marks around content, which go whether there are calls or not.
CONSERVING = sorted(set(PARSERS) - {"cohere", "inkling", "kimi_k3", "pythonic"})


@pytest.mark.parametrize("name", CONSERVING)
@given(scraps=st.lists(st.sampled_from(SCRAPS), max_size=8), size=st.integers(1, 7))
def test_without_a_call_nothing_is_lost(name: str, scraps: list[str], size: int) -> None:
    text = "Said. \n".join(scraps)
    found = whole(events_of(name, cut(text, size)), keeps_rest=PARSERS[name].KEEPS_REST)
    assert found.calls or found.text == text


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text("ab c.\n", max_size=40), size=st.integers(1, 7))
def test_plain_text_is_passed_on_to_the_letter(name: str, text: str, size: int) -> None:
    assert (
        "".join(event.text for event in events_of(name, cut(text, size)) if isinstance(event, Text)) == text
    )


@pytest.mark.parametrize("name", sorted(set(PARSERS) - {"deepseek32", "deepseek_v4", "deepseek_v41"}))
def test_plain_text_is_not_held_back(name: str) -> None:
    parser = PARSERS[name](Schemas({}))
    for word in ("No", " tool", " needed", "."):
        assert parser.push(word) == [Text(word)]
    assert parser.finish() == []


def test_a_call_is_told_as_it_comes() -> None:
    parser = PARSERS["qwen"](Schemas({}))
    assert parser.push("<tool_call>\n{") == []
    assert parser.push('"name": "f", "argu') == []
    assert parser.push('ments": {"a') == [Call(0, "f"), Arguments(0, '{"a')]
    assert parser.push('b": "x y') == [Arguments(0, 'b":"x y')]
    assert parser.push('z"') == [Arguments(0, 'z"')]
    assert parser.push("}}\n</tool") == [Arguments(0, "}")]
    assert parser.push("_call>") == []
    assert parser.finish() == []


def test_a_long_string_between_tags_is_told_as_it_comes() -> None:
    parser = PARSERS["deepseek32"](Schemas({}))
    opening = '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="true">'
    assert parser.push(opening) == [Call(0, "f"), Arguments(0, '{"k":"')]
    assert parser.push('say "hi"\n') == [Arguments(0, 'say \\"hi\\"\\n')]
    assert parser.push("</｜DSML｜para") == []
    assert parser.push("meter></｜DSML｜invoke>") == [Arguments(0, '"}')]


def test_arguments_before_the_name_wait_for_it() -> None:
    parser = PARSERS["json"](Schemas({}))
    assert parser.push('{"arguments": {"a": 1}, ') == []
    assert parser.push('"name": "f"}') == [Call(0, "f"), Arguments(0, '{"a":1}')]


def test_a_json_answer_is_passed_on_as_soon_as_it_is_no_call() -> None:
    parser = PARSERS["json"](Schemas({}))
    assert parser.push('{"na') == []
    assert parser.push('med": [1, ') == [Text('{"named": [1, ')]
    assert parser.push('{"name": "f"}') == [Text('{"name": "f"}')]
    assert parser.push('], "x": 2} and') == [Text('], "x": 2} and')]


def test_a_call_that_is_broken_off() -> None:
    parser = PARSERS["qwen"](Schemas({}))
    parser.push('<tool_call>\n{"name": "f", "arguments": {"a": "b')
    assert parser.finish() == [Broken(0, '<tool_call>\n{"name": "f", "arguments": {"a": "b')]
