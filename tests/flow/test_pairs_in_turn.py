"""Pairs of vLLM workers: prefill first, then decode with what it has handed over."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.flow.conversation import SSE, ClientEnd, chat, request
from tests.flow.pairs import MakePair, PairFlow, bodies, loads

ANSWER = b'{"from":"decode"}'
STREAMED = b"data: d\n\n"


@pytest.fixture
def vllm(make_pair: MakePair) -> PairFlow:
    return make_pair(attempts=1, runtime="vllm", connector="NixlConnector")


def test_prefill_comes_first(vllm: PairFlow) -> None:
    client = vllm.client(chat())
    [first] = bodies(vllm.prefill)
    assert (first["max_tokens"], first["stream"]) == (1, False)
    assert first["kv_transfer_params"] == {"do_remote_decode": True, "do_remote_prefill": False}
    assert not vllm.decode.dials and loads(vllm) == [1, 1]
    vllm.prefill.answers(body=b'{"kv_transfer_params": {"remote_port":5.0}}')
    assert loads(vllm) == [0, 1]
    assert vllm.decode.requests[0][1].endswith(b'"kv_transfer_params":{"remote_port":5.0}}')
    vllm.decode.answers(body=ANSWER)
    assert client.answer.body == ANSWER


def test_mooncake(make_pair: MakePair) -> None:
    pair = make_pair(runtime="vllm", connector="MooncakeConnector")
    pair.client(chat(stream=True))
    [first] = bodies(pair.prefill)
    transfer_id = first["kv_transfer_params"].pop("transfer_id")
    assert transfer_id.startswith("xfer-")
    pair.prefill.answers()
    [second] = bodies(pair.decode)
    assert second["kv_transfer_params"] == {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "transfer_id": transfer_id,
        "remote_engine_id": "e0",
        "remote_bootstrap_addr": "http://w0:9000",
    }
    assert second["stream"] is True
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED, end=True)


def test_several_choices_are_prefilled_by_the_decode_worker(vllm: PairFlow) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 2}
    client = vllm.client(request(json.dumps(body).encode()))
    assert not vllm.prefill.dials and bodies(vllm.decode) == [body]
    vllm.decode.answers(body=ANSWER)
    assert client.answer.body == ANSWER


def test_vllm_prefill_refuses(vllm: PairFlow) -> None:
    client = vllm.client(chat(stream=True))
    vllm.prefill.answers(400)
    assert client.error == (400, "prefill_bad_request") and not vllm.decode.dials


def test_vllm_prefill_is_too_slow(vllm: PairFlow) -> None:
    client = vllm.client(chat())
    vllm.expire("request")
    assert client.error == (504, "call_upstream_timeout") and not vllm.decode.dials


def test_vllm_decode_refuses(vllm: PairFlow) -> None:
    client = vllm.client(chat())
    vllm.prefill.answers()
    vllm.decode.answers(503)
    assert client.error == (503, "decode_unavailable")


def test_leaving_in_vllm_prefill(vllm: PairFlow, leave: Callable[[ClientEnd], None]) -> None:
    leave(vllm.client(chat()))
    assert vllm.prefill.connection.was_aborted and not vllm.decode.dials


def test_leaving_in_vllm_decode(vllm: PairFlow, leave: Callable[[ClientEnd], None]) -> None:
    client = vllm.client(chat())
    vllm.prefill.answers()
    leave(client)
    assert vllm.decode.connection.was_aborted and not vllm.prefill.connection.was_aborted
