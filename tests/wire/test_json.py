"""The body must be strict JSON, and what is forwarded is the client's bytes (FF-14, FF-15, FF-18)."""

from __future__ import annotations

import json

import pytest

from tests.wire.raw_client import post
from tests.wire.scripted_worker import ScriptedWorker


def chat(members: str) -> bytes:
    return ('{"model":"m","messages":[{"role":"user","content":"hi"}]' + members + "}").encode(
        "utf-8", "surrogatepass"
    )


BAD = {
    **{
        f"{value} as {name}": chat(f',"{name}":{value}')
        for value in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400")
        for name in ("temperature", "zz")
    },
    "nested NaN": chat(',"zz":{"a":[1,NaN]}'),
    "trailing comma": chat(","),
    "trailing comma in a list": chat(',"zz":[1,]'),
    "text after the end": chat("") + b"x",
    "a second value": chat("") + b"{}",
    "raw newline in a string": chat(',"zz":"a\nb"'),
    "raw tab in a string": chat(',"zz":"a\tb"'),
    "raw NUL in a string": chat(',"zz":"a\x00b"'),
    "unknown escape": chat(',"zz":"\\x41"'),
    "short escape": chat(',"zz":"\\u12"'),
    "lone high surrogate": chat(',"zz":"\\ud83d"'),
    "lone low surrogate": chat(',"zz":"\\udc00"'),
    "surrogates in the wrong order": chat(',"zz":"\\ude00\\ud83d"'),
    "lone surrogate in a key": chat(',"\\ud83d":1'),
    "lone surrogate in content": b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
    "encoded surrogate": chat(',"zz":"\ud83d"'),
    "not UTF-8": chat(',"zz":"')[:-1] + b'\xff"}',
    "overlong UTF-8": chat(',"zz":"')[:-1] + b'\xc0\xaf"}',
    "cut UTF-8": chat(',"zz":"')[:-1] + b'\xf0\x9f"}',
    "byte order mark": b"\xef\xbb\xbf" + chat(""),
    "UTF-16": chat("").decode().encode("utf-16"),
    "single quotes": b"{'model':'m'}",
    "bare key": b'{model:"m"}',
    "comment": chat(',"zz":1/* */'),
    "leading zero": chat(',"zz":01'),
    "plus": chat(',"zz":+1'),
    "no digits after the point": chat(',"zz":1.'),
    "no digits before the point": chat(',"zz":.5'),
    "hexadecimal": chat(',"zz":0x1'),
    "capital literals": chat(',"zz":True'),
    "nested 10,000 levels": chat(',"zz":' + "[" * 10_000 + "]" * 10_000),
    "never closed": chat("")[:-1],
    "wrong bracket": chat(',"zz":[1}'),
    "empty": b"",
    "blanks": b" \n",
    "a list": b"[]",
    "a string": b'"m"',
    "no model": b'{"messages":[]}',
    "model is null": b'{"model":null}',
    "model is a number": b'{"model":1}',
    "stream is a string": chat(',"stream":"true"'),
    "model twice": b'{"model":"m","model":"n"}',
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
async def test_bad_bodies_are_400_and_no_worker_is_called(gateway, body):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    client = await gw.client()
    response = await client.ask(post(body))
    assert response.status == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "json_parse_error"
    assert error["message"]
    assert worker.requests == []
    assert (await client.ask(post())).status == 200, "the connection is of further use"


GOOD = {
    "surrogate pair": chat(',"zz":"\\ud83d\\ude00"'),
    "escaped NUL": chat(',"zz":"\\u0000"'),
    "raw emoji": chat(',"zz":"😀 é 你"'),
    "key order": chat(',"zz":{"zebra":1,"apple":2,"mango":{"z":1,"a":2}}'),
    "spellings of numbers": chat(',"zz":[1.0,1e5,-0.0,0.95,1e-7,0.1234567890123456789,-0,1E+2]'),
    "large integers": chat(
        ',"zz":[18446744073709551615,123456789012345678901234567890,-9223372036854775809]'
    ),
    "blanks everywhere": b' \r\n\t{ "model" : "m" ,\n "messages" : [ {"role":"user","content":"hi"} ] } \n',
    "escaped slashes": chat(',"zz":"a\\/b\\u00e9"'),
    "a duplicate unknown key": chat(',"zz":1,"zz":2'),
    "null members": chat(',"zz":null,"user":null'),
    "empty containers": chat(',"zz":{"a":{},"b":[],"":""}'),
    "escaped key": b'{"model":"m","messages":[{"role":"user","content":"hi"}],"z\\u007a":1}',
    "nested 100 levels": chat(',"zz":' + "[" * 100 + "]" * 100),
    "half a megabyte": chat(',"zz":"' + "é" * 250_000 + '"'),
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD)
async def test_good_bodies_arrive_byte_for_byte(gateway, body):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    for _ in range(2):
        assert (await gw.ask(post(body))).status == 200
    assert [one.body for one in worker.requests] == [body] * 2


async def test_the_same_body_50_times_is_forwarded_the_same(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    body = GOOD["key order"]
    client = await gw.client()
    for _ in range(50):
        assert (await client.ask(post(body))).status == 200
    assert {one.body for one in worker.requests} == {body}


@pytest.mark.parametrize("name", ["alias", "a\u006cias", 'al"ias', "é"])
async def test_an_alias_changes_the_model_and_nothing_else(gateway, name):
    from smg.config.specs import ModelAlias

    worker = ScriptedWorker()
    gw = await gateway(worker, model_alias=(ModelAlias(name, "m"),))
    body = chat(',"zz":[1.0, "\\u0041"]').replace(b'"model":"m"', b'"model" : ' + json.dumps(name).encode())
    assert (await gw.ask(post(body))).status == 200
    assert worker.requests[0].body == chat(',"zz":[1.0, "\\u0041"]').replace(b'"model":', b'"model" : ')


OPTIONAL = (
    *("stop", "tools", "tool_choice", "stream", "temperature", "n", "logprobs", "top_logprobs"),
    *("response_format", "stream_options", "max_tokens", "user", "logit_bias", "seed", "parallel_tool_calls"),
)


@pytest.mark.parametrize("name", OPTIONAL)
async def test_null_means_absent(gateway, name):
    """FF-16: SDKs send null for what is not set."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    assert (await gw.ask(post(chat(f',"{name}":null')))).status == 200
    assert json.loads(worker.requests[0].body)["messages"] == [{"role": "user", "content": "hi"}]


HISTORIES = {
    "tool calls without content": (
        '{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",'
        '"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"1"}'
    ),
    "no content at all": (
        '{"role":"assistant","tool_calls":[{"id":"c1","type":"function",'
        '"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"1"}'
    ),
    "a list of parts from a tool": (
        '{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f",'
        '"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"1"}]}'
    ),
    "reasoning": '{"role":"assistant","content":"a","reasoning_content":"b"}',
}


@pytest.mark.parametrize("turns", HISTORIES.values(), ids=HISTORIES)
async def test_histories_as_clients_send_them(gateway, turns):
    """FF-17: they are taken, and forwarded as sent."""
    worker = ScriptedWorker()
    gw = await gateway(worker)
    first, last = '{"role":"user","content":"hi"}', '{"role":"user","content":"on"}'
    body = f'{{"model":"m","messages":[{first},{turns},{last}]}}'.encode()
    assert (await gw.ask(post(body))).status == 200
    assert worker.requests[0].body == body
