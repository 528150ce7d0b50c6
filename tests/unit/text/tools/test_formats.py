"""Each format's text with calls, without, and with what is nearly one: what is content, what is a call.

Where the original loses what only resembles a call, it stays content here.
"""

from __future__ import annotations

import pytest

from tests.unit.text.tools.telling import answer, cut, streamed

W = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}'
T = '{"name": "get_time", "arguments": {"zone": "CET"}}'
A, B = '{"city": "Paris", "days": 2}', '{"zone": "CET"}'
WEATHER = ("get_weather", '{"city":"Paris","days":2}')
TIME = ("get_time", '{"zone":"CET"}')

QWEN_XML = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
QWEN_XML += "<parameter=days>\n2\n</parameter>\n"
QWEN_XML += "</function>\n</tool_call>"
DS, DS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
K2, K2_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
GLM = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"
S3, S3_END = "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"
V32, V32_END = "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"
MM, MM_END = "<minimax:tool_call>\n", "</minimax:tool_call>"
MM_CALL = '<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n'
PARIS = ("get_weather", '{"city":"Paris"}')
K3_CALL = '<|open|>call tool="f" index="1"<|sep|>{}<|close|>call<|sep|>'


def deepseek(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def deepseek31(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


def kimi(name: str, arguments: str, number: str = ":0") -> str:
    return f"<|tool_call_begin|>{name}{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


def dsml(name: str, *values: str) -> str:
    inside = "".join(f"<｜DSML｜parameter name={value}</｜DSML｜parameter>\n" for value in values)
    return f'<｜DSML｜invoke name="{name}">\n{inside}</｜DSML｜invoke>\n'


def step3(name: str, inside: str) -> str:
    return (
        f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{inside}</steptml:invoke>'
        "<｜tool_call_end｜>"
    )


def cohere(inside: str) -> str:
    return f"<|START_ACTION|>\n{inside}\n<|END_ACTION|>"


def inkling(inside: str) -> str:
    return f"<|content_invoke_tool_json|>{inside}<|end_message|>"


def k3(inside: str) -> str:
    return f"<|open|>tools<|sep|>{inside}<|close|>tools<|sep|>"


def k3_value(key: str, kind: str, value: str) -> str:
    return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'


JSON = [
    (W, "", [WEATHER]),
    (f"[{W}, {T}]", "", [WEATHER, TIME]),
    (f"Sure. {W} done.", "Sure.  done.", [WEATHER]),
    (f"{W}\n{T}", "\n", [WEATHER, TIME]),
    ('{"name": "get_time", "parameters": {"zone": "CET"}}', "", [TIME]),
    ('{"function": "get_time", "arguments": {"zone": "CET"}}', "", [TIME]),
    ('{"name":"f"}', "", [("f", "{}")]),
    ('{"name":"f","arguments":null}', "", [("f", "null")]),
    ('{"arguments":{"a":1},"id":"x","name":"f"}', "", [("f", '{"a":1}')]),
    ('{"name":"f","arguments":{"a":1},"parameters":{"b":1}}', "", [("f", '{"a":1}')]),
    (f"```json\n{W}\n```", "```json\n\n```", [WEATHER]),
    (f"I use {{braces}} and [brackets] {W}", "I use {braces} and [brackets] ", [WEATHER]),
    (f"[{W}, 5]", ", 5]", [WEATHER]),
    *(
        (text, text, [])
        for text in (
            W[:-1],
            W[:40],
            '{"a":1}',
            "[1,2]",
            "{}",
            "[]",
            '{"name":5,"arguments":{}}',
            '{"name":"","arguments":{}}',
            '{"name":"John","age":5}',
            f'{{"x": {W}}}',
            '{"type":"function","function":{"name":"f","arguments":{}}}',
            "{'name': 'f', 'arguments': {}}",
            '{"name":"\\ud800","arguments":{}}',
            "function() { return [1]; }",
            "",
        )
    ),
]
LLAMA = [
    (f"<|python_tag|>{W};{T}", "", [WEATHER, TIME]),
    (f"<|python_tag|>{W} ; {T}", "", [WEATHER, TIME]),
    (f"{W};{T}", "", [WEATHER, TIME]),
    (f"x <|python_tag|>{W} y", "x  y", [WEATHER]),
    (f"<|python_tag|>{W}<|eom_id|>", "<|eom_id|>", [WEATHER]),
    (f"<|python_tag|>{W};nope", ";nope", [WEATHER]),
    ('<|python_tag|>{"name":"f","parameters":{"a":"b;c"}};' + T, "", [("f", '{"a":"b;c"}'), TIME]),
    *(
        (text, text, [])
        for text in ("<|python_tag|>nope", "<|python_tag|>", f"x {W}", f"[{W}]", ' {"a":1} ', W[:-1])
    ),
]
QWEN = [
    (f"<tool_call>\n{W}\n</tool_call>\n<tool_call>\n{T}\n</tool_call>", "", [WEATHER, TIME]),
    (f"Let me.\n<tool_call>\n{W}\n</tool_call>\nAfter.", "Let me.\n", [WEATHER]),
    (f"<tool_call>{W}</tool_call>", "", [WEATHER]),
    (
        '<tool_call>\n{"name":"f","arguments":{"a":"</tool_call>"}}\n</tool_call>',
        "",
        [("f", '{"a":"</tool_call>"}')],
    ),
    (
        f"a <tool_call>\nno\n</tool_call> <tool_call>\n{W}\n</tool_call> c",
        "a <tool_call>\nno\n</tool_call> ",
        [WEATHER],
    ),
    *(
        (text, text, [])
        for text in (
            "a <tool_call>\nnope\n</tool_call> b",
            f"<tool_call>\n{W[:-1]}\n</tool_call>",
            f"<tool_call>\n{W}",
            f"<tool_call>\n{W}</tool_call",
            "<tool_call>",
            "</tool_call> x",
            f"<tool_call>\n[{W}]\n</tool_call>",
            f"<tool_call>\n{W}{W}\n</tool_call>",
            '<tool_call>\n{"a":1}\n</tool_call>',
            W,
        )
    ),
]
MISTRAL = [
    (f"Sure. [TOOL_CALLS] [{W}, {T}] after", "Sure. ", [WEATHER, TIME]),
    (f"[TOOL_CALLS][{W}]", "", [WEATHER]),
    ('[TOOL_CALLS] [{"name":"f","arguments":{"a":"]"}}]', "", [("f", '{"a":"]"}')]),
    *((text, text, []) for text in ("x [TOOL_CALLS] nope", "[TOOL_CALLS]", "[TOOL_CALLS] []", f"[{W}]")),
    (f"[TOOL_CALLS] {W} x", f"[TOOL_CALLS] {W} x", []),
]
QWEN_XML_ROWS = [
    (QWEN_XML, "", [WEATHER]),
    (f"Ok.\n{QWEN_XML}\n{QWEN_XML}\nAfter", "Ok.\n", [WEATHER, WEATHER]),
    ("<tool_call><function=f></function></tool_call>", "", [("f", "{}")]),
    (
        QWEN_XML.replace("Paris", "\n  a<b>&amp;\n"),
        "",
        [("get_weather", '{"city":"\\n  a<b>&amp;\\n","days":2}')],
    ),
    (QWEN_XML.replace("Paris", "</tool_call>"), "", [("get_weather", '{"city":"</tool_call>","days":2}')]),
    *(
        (text, text, [])
        for text in (
            QWEN_XML[:-12],
            QWEN_XML[:60],
            "<tool_call>\nnope\n</tool_call>",
            "<tool_call><function=></function></tool_call>",
            "<function=f></function>",
            f"<tool_call>\n{W}\n</tool_call>",
            "<tool_call><function=f><parameter=k>v</function></tool_call>",
        )
    ),
]
DEEPSEEK = [
    (
        f"Ok. {DS}{deepseek('get_weather', A)}\n{deepseek('get_time', B)}{DS_END} after",
        "Ok. ",
        [WEATHER, TIME],
    ),
    (DS + deepseek("get_weather", A), "", [WEATHER]),
    (DS + deepseek("get_weather", A) + DS_END + DS + deepseek("get_time", B) + DS_END, "", [WEATHER, TIME]),
    (DS + deepseek("f", '{"a":"```"}') + DS_END, "", [("f", '{"a":"```"}')]),
    (
        f"{DS}{deepseek('f', 'nope')}{deepseek('get_time', B)}{DS_END}",
        DS + deepseek("f", "nope"),
        [TIME],
    ),
    *(
        (text, text, [])
        for text in (
            DS,
            DS + DS_END,
            DS + deepseek("f", "nope") + DS_END,
            DS + deepseek("f", "") + DS_END,
            DS + deepseek("", "{}") + DS_END,
            DS + deepseek31("f", "{}") + DS_END,
            DS + deepseek("f", "{}").removesuffix("<｜tool▁call▁end｜>") + DS_END,
            deepseek("f", "{}"),
        )
    ),
]
DEEPSEEK31 = [
    (f"Ok. {DS}{deepseek31('get_weather', A)}{deepseek31('get_time', B)}{DS_END} x", "Ok. ", [WEATHER, TIME]),
    (DS + deepseek31(" get_time ", f"\n{B} ") + DS_END, "", [TIME]),
    *(
        (text, text, [])
        for text in (
            DS + deepseek31("f", "nope") + DS_END,
            DS + deepseek31("f", "{} x") + DS_END,
            DS + deepseek31("f", "[1]") + DS_END,
            DS + deepseek31("x" * 300, "{}") + DS_END,
        )
    ),
]
KIMI_K2 = [
    (
        f"Ok. {K2}{kimi('functions.get_weather', A)}{kimi('functions.get_time', B, ':1')}{K2_END} x",
        "Ok. ",
        [WEATHER, TIME],
    ),
    (K2 + kimi("get_weather", A) + K2_END, "", [WEATHER]),
    (K2 + kimi("functions.a.b-c", "{}", ":12"), "", [("a.b-c", "{}")]),
    (K2 + kimi(" functions.f", " {} ", "") + K2_END, "", [("f", "{}")]),
    *(
        (text, text, [])
        for text in (
            kimi("functions.f", "{}"),
            K2 + kimi("functions.f", "nope") + K2_END,
            K2 + kimi("functions.f", "[1]") + K2_END,
            K2 + kimi("functions.f", '{"a":1') + K2_END,
            K2 + kimi("", "{}") + K2_END,
            K2 + K2_END,
        )
    ),
]
GLM_ROWS = [
    (f"Ok.\n{GLM}\n{GLM}\nafter", "Ok.\n", [PARIS, PARIS]),
    (GLM.replace("\n", ""), "", [PARIS]),
    ("<tool_call>\nf\n</tool_call>", "", [("f", "{}")]),
    ("<tool_call>f</tool_call>", "", [("f", "{}")]),
    (GLM.replace("Paris", " a<b \n"), "", [("get_weather", '{"city":" a<b \\n"}')]),
    *(
        (text, text, [])
        for text in (
            GLM[:-12],
            GLM[:30],
            "<tool_call></tool_call>",
            "a <tool_call> tag is what I write",
            f"<tool_call>\n{W}\n</tool_call>",
            "<tool_call>f\n<arg_key>k</arg_key></tool_call>",
            "<tool_call>" + "x" * 300 + "</tool_call>",
        )
    ),
]
STEP3_VALUE = '<steptml:parameter name="city">Paris</steptml:parameter>'
STEP3 = [
    (
        f"Ok. {S3}{step3('get_weather', STEP3_VALUE)}\n{step3('f', '')}{S3_END} x",
        "Ok. ",
        [PARIS, ("f", "{}")],
    ),
    (S3 + step3("get_weather", STEP3_VALUE), "", [PARIS]),
    *(
        (text, text, [])
        for text in (
            step3("get_weather", STEP3_VALUE),
            S3 + "nope" + S3_END,
            S3 + step3("f", "").replace("function", "foo") + S3_END,
            S3 + step3("", "") + S3_END,
            S3 + step3("f", "").removesuffix("<｜tool_call_end｜>") + S3_END,
        )
    ),
]
DSML_WEATHER = dsml("get_weather", '"city" string="true">Paris', '"days" string="false">2')
DSML_ROWS = [
    (f"Ok.\n{V32}\n{DSML_WEATHER}{dsml('f')}{V32_END}\nafter", "Ok.", [WEATHER, ("f", "{}")]),
    (V32 + dsml("get_weather", '"city">Paris', '"days">2') + V32_END, "", [WEATHER]),
    (
        V32 + dsml("f", '"a" string="true">5', '"b" string="true">"x"') + V32_END,
        "",
        [("f", '{"a":"5","b":"\\"x\\""}')],
    ),
    (
        V32 + dsml("f", '"a" string="false">nope', '"b" string="false">[1, 2]'),
        "",
        [("f", '{"a":"nope","b":[1,2]}')],
    ),
    (f'{V32}<｜DSML｜invoke name="get_weather">\n{A}\n</｜DSML｜invoke>{V32_END}', "", [WEATHER]),
    *(
        (text, text, [])
        for text in (
            V32,
            V32 + V32_END,
            f"a {V32}nope{V32_END} b",
            DSML_WEATHER,
            V32 + dsml("") + V32_END,
            V32 + DSML_WEATHER[:-9],
            f"Ok.\n{V32}{DSML_WEATHER[:-9]}",
            V32 + dsml("f", '"a" foo="x">1') + V32_END,
            "Said. \n",
        )
    ),
]
MINIMAX = [
    (f"Ok.\n{MM}{MM_CALL}{MM_CALL}{MM_END}\nafter", "Ok.\n", [PARIS, PARIS]),
    (f"a {MM}nope{MM_END} b {MM}{MM_CALL}{MM_END} c", f"a {MM}nope{MM_END} b ", [PARIS]),
    (MM + '<invoke name="f">\n</invoke>\n' + MM_END, "", [("f", "{}")]),
    *(
        (text, text, [])
        for text in (
            MM_CALL,
            MM + MM_END,
            MM + '<invoke name="">\n</invoke>' + MM_END,
            MM + "<invoke name=f></invoke>" + MM_END,
            MM + MM_CALL[:50],
        )
    ),
]
COHERE_CALL = '{"tool_name": "get_time", "parameters": {"zone": "CET"}}'
COHERE = [
    (f"Ok. {cohere(f'[{COHERE_CALL}, {COHERE_CALL}]')} x", "Ok.  x", [TIME, TIME]),
    (cohere(COHERE_CALL), "", [TIME]),
    (cohere(f"[{W}]"), "", [WEATHER]),
    ("<|START_RESPONSE|>Hi<|END_RESPONSE|>" + cohere(f"[{COHERE_CALL}]"), "Hi", [TIME]),
    ("<|START_TEXT|>Hi<|END_TEXT|>", "Hi", []),
    (cohere("nope"), cohere("nope"), []),
    (cohere("[]"), cohere("[]"), []),
]
PYTHONIC = [
    ('[get_weather(city="Paris", days=2), get_time(zone="CET")]', "", [WEATHER, TIME]),
    ('Ok. [get_time(zone="CET")] after', "Ok.  after", [TIME]),
    ("[f()]", "", [("f", "{}")]),
    ("[ f( a = 1 ) , g() ]", "", [("f", '{"a":1}'), ("g", "{}")]),
    (
        "[f(a=True, b=None, c=[1, 'two'], d={'k': 1.5}, e=-3, g=x)]",
        "",
        [("f", '{"a":true,"b":null,"c":[1,"two"],"d":{"k":1.5},"e":-3,"g":"x"}')],
    ),
    ("[f(a=']')]", "", [("f", '{"a":"]"}')]),
    ("<|python_start|>[f(a=1)]<|python_end|>", "", [("f", '{"a":1}')]),
    *(
        (text, text, [])
        for text in (
            'get_weather(city="Paris")',
            '[get_weather("Paris")]',
            '[get_weather(city="Paris"]',
            "[f(a=1)",
            "[1, 2] [] [see](link) x[0]",
            "[f(a=1), nope]",
            "[a.b(c=1)]",
            "[f(a=g())]",
            "[f(a=1+2)]",
            "[f(a=1,a=2)]",
            "[f(**{})]",
            "[f(a=1);g()]",
        )
    ),
]
S_CALL = "{'name': 'get_time', 'arguments': {'zone': 'CET'}}"
SARASHINA = [
    (f"[{S_CALL}, {S_CALL}]", "", [TIME, TIME]),
    (f"Ok. <|tool_calls|>[{S_CALL}] after", "Ok.  after", [TIME]),
    (f"<|tool_calls|>{S_CALL}", "", [TIME]),
    (f"<|tool_calls|>[{T}]", "", [TIME]),
    ("<|tool_calls|>[{'name': 'f', 'arguments': {'x': \"it's\"}}]", "", [("f", '{"x":"it\'s"}')]),
    ("<|tool_calls|>[{'name': 'f'}]", "", [("f", "{}")]),
    *(
        (text, text, [])
        for text in (
            "x <|tool_calls|>nope",
            f"Ok. [{S_CALL}]",
            "<|tool_calls|>[{'a': 'b'}]",
            "[1,2] x",
            f"[{S_CALL}",
        )
    ),
]
INKLING = [
    ("Ok. " + inkling('{"name":"get_time","args":{"zone":"CET"}}') + " x", "Ok.  x", [TIME]),
    ("<|message_model|>to<|content_text|>Ok.<|end_message|>", "Ok.", []),
    ("<|message_model|>f" + inkling('{"args":{"a":1},"name":"f"}') * 2, "", [("f", '{"a":1}')] * 2),
    ('<|content_invoke_tool_json|>{"name":"f","args":{}}', "", [("f", "{}")]),
    (inkling("nope"), "<|content_invoke_tool_json|>nope", []),
    (inkling('{"name":"f","args":[1]}'), '<|content_invoke_tool_json|>{"name":"f","args":[1]}', []),
    (W, W, []),
]
KIMI_K3 = [
    ("<|open|>response<|sep|>Ok.<|close|>response<|sep|>" + k3(K3_CALL.format("")), "Ok.", [("f", "{}")]),
    ("<|open|>think<|sep|>hm<|close|>think<|sep|>x" + k3(K3_CALL.format("") * 2), "x", [("f", "{}")] * 2),
    (
        k3(
            K3_CALL.format(
                k3_value("s", "string", ' "5" ')
                + k3_value("n", "number", "2.5")
                + k3_value("o", "object", '{"a": 1}')
                + k3_value("z", "null", "null")
                + k3_value("w", "number", "abc")
            )
        ),
        "",
        [("f", '{"s":" \\"5\\" ","n":2.5,"o":{"a":1},"z":null,"w":"abc"}')],
    ),
    (k3('<|open|>call index="1" tool="a&quot;b"<|sep|><|close|>call<|sep|>'), "", [('a"b', "{}")]),
    ('<|open|>message role="assistant"<|sep|>Ok.<|close|>message<|sep|><|end_of_msg|>', "Ok.", []),
    ("<|open|>response<|sep|>a <|sep|> b", "a <|sep|> b", []),
    *(
        (text, text, [])
        for text in ("a <|open|> b", K3_CALL.format(""), k3(""), k3("nope"), k3(K3_CALL.format("")[:50]))
    ),
]
ROWS = {
    "json": JSON,
    "llama": LLAMA,
    "qwen": QWEN,
    "mistral": MISTRAL,
    "qwen_xml": QWEN_XML_ROWS,
    "qwen_coder": QWEN_XML_ROWS,
    "nemotron": QWEN_XML_ROWS,
    "deepseek": DEEPSEEK,
    "deepseek31": DEEPSEEK31,
    "deepseek32": DSML_ROWS,
    "kimik2": KIMI_K2,
    "kimi_k3": KIMI_K3,
    "glm45_moe": GLM_ROWS,
    "glm47_moe": GLM_ROWS,
    "step3": STEP3,
    "minimax_m2": MINIMAX,
    "cohere": COHERE,
    "pythonic": PYTHONIC,
    "sarashina": SARASHINA,
    "inkling": INKLING,
    "passthrough": [(text, text, []) for text in (W, "<tool_call>", "")],
}
V4 = [
    (said.replace("function_calls", "tool_calls"), text.replace("function_calls", "tool_calls"), calls)
    for said, text, calls in DSML_ROWS
]
ROWS |= {"deepseek_v4": V4, "deepseek_v41": V4}


@pytest.mark.parametrize(
    ("name", "said", "text", "calls"),
    [(name, *row) for name, rows in ROWS.items() for row in rows],
)
def test_text_and_calls(name: str, said: str, text: str, calls: list[tuple[str, str]]) -> None:
    found = answer(name, said)
    assert (found.text, found.calls) == (text, calls)
    if text == said and not calls:
        # What was told of a call that broke off is all that a client of a stream does not get as text.
        assert streamed(name, cut(said, 1)).text in said
