"""Prefill/decode pairs: each order in which the halves answer or fail, and clients that leave in each phase.

The fixture looks after each test that both workers' loads are zero and that nothing is left.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any

import pytest

from smg._fast.side import Side
from smg.gateway.pair import PairLease
from tests.flow.conversation import SSE, ClientEnd, chat, request
from tests.flow.pairs import MakePair, PairFlow, bodies, failures, loads

STREAMED = b"data: d\n\n"
ANSWER = b'{"from":"decode"}'
LARGE = b"data: " + b"x" * 40_000 + b"\n\n"


@pytest.fixture
def pair(make_pair: MakePair) -> PairFlow:
    """One of each, and one attempt."""
    return make_pair(attempts=1)


# ---- SGLang: both at once


def test_both_get_the_request_with_one_room(pair: PairFlow) -> None:
    client = pair.client(chat())
    [prefill], [decode] = bodies(pair.prefill), bodies(pair.decode)
    assert prefill == decode and loads(pair) == [1, 1]
    assert (prefill["bootstrap_host"], prefill["bootstrap_port"]) == ("w0", 9000)
    assert 0 < prefill["bootstrap_room"] < 2**63
    pair.decode.answers(body=ANSWER)
    assert not client.answers and loads(pair) == [1, 1]
    pair.prefill.answers(body=b'{"from":"prefill"}')
    assert client.answer.body == ANSWER
    assert client.answer.get("x-smg-routed-worker-id") == "http://w1:8000"


def test_prefill_first(pair: PairFlow) -> None:
    client = pair.client(chat())
    pair.prefill.answers()
    assert loads(pair) == [0, 1] and not client.answers
    pair.decode.answers(body=ANSWER)
    assert client.answer.body == ANSWER


def test_connections_are_used_again(pair: PairFlow) -> None:
    for _ in range(3):
        pair.client(chat())
        pair.decode.answers()
        pair.prefill.answers()
    assert [end.dials for end in pair.ends] == [1, 1]


def test_a_stream_waits_for_the_head_of_prefill_only(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    assert not client.transport.data
    pair.prefill.sends(SSE)
    assert client.transport.data.endswith(STREAMED + b"\r\n")
    pair.decode.streams(STREAMED, end=True)
    assert client.answer.body == STREAMED * 2
    assert loads(pair) == [1, 1]
    pair.prefill.streams(b"data: p\n\n", end=True)
    assert loads(pair) == [0, 0]


def test_a_stream_is_not_delayed_once_prefill_has_answered(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.prefill.sends(SSE)
    pair.prefill.streams(b"data: p\n\n", end=True)
    assert loads(pair) == [0, 1]
    pair.decode.sends(SSE)
    for _ in range(3):
        pair.decode.streams(STREAMED)
        assert client.transport.data.endswith(STREAMED + b"\r\n")
    pair.decode.streams(end=True)
    assert client.answer.body == STREAMED * 3


def test_a_stream_for_an_old_client(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0"))
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    pair.prefill.answers()
    pair.decode.streams(STREAMED, end=True)
    assert client.transport.data.endswith(b"\r\n\r\n" + STREAMED * 2)


def test_what_is_held_back_is_bounded(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.decode.sends(SSE)
    pair.decode.streams(LARGE)
    assert pair.decode.connection.is_reading
    pair.decode.streams(LARGE)
    assert not pair.decode.connection.is_reading and not client.transport.data
    pair.prefill.sends(SSE)
    assert pair.decode.connection.is_reading
    pair.decode.streams(STREAMED, end=True)
    pair.prefill.streams(end=True)
    assert client.answer.body == LARGE * 2 + STREAMED


def test_a_stream_that_has_ended_while_it_was_held(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED, end=True)
    assert not client.transport.data
    pair.prefill.answers()
    assert client.answer.body == STREAMED
    pair.client(chat())
    pair.decode.answers()
    pair.prefill.answers()


def test_a_stream_that_breaks_while_it_is_held(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    pair.decode.resets()
    assert not client.transport.data
    pair.prefill.answers()
    assert client.answer.body.startswith(STREAMED) and client.answer.body.endswith(b"data: [DONE]\n\n")


def test_the_next_request_on_the_connection_does_not_wait_for_prefill(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True) + chat())
    pair.prefill.sends(SSE)
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED, end=True)
    assert len(pair.prefill.connections) == 2
    pair.decode.answers(body=ANSWER)
    pair.prefill.answers()
    pair.act(lambda: pair.prefill.connections[0].deliver(b"0\r\n\r\n"))
    assert [answer.body for answer in client.answers] == [STREAMED, ANSWER]


@pytest.mark.parametrize("ending", ["answered", "prefill refuses", "decode refuses", "client leaves"])
def test_nothing_waits_for_the_collector(pair: PairFlow, ending: str) -> None:
    gc.collect()
    gc.disable()
    try:
        client = pair.client(chat())
        if ending == "client leaves":
            client.leaves()
        elif ending != "decode refuses":
            pair.prefill.answers(200 if ending == "answered" else 400)
        if ending in ("answered", "decode refuses"):
            pair.decode.answers(200 if ending == "answered" else 400)
        assert not [one for one in gc.get_objects() if type(one) in (Side, PairLease)]
    finally:
        gc.enable()


# ---- SGLang: one of them fails

STREAM_OR_NOT = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@STREAM_OR_NOT
@pytest.mark.parametrize(("status", "code", "failed"), [(400, "bad_request", 0), (503, "unavailable", 1)])
def test_prefill_refuses_first(pair: PairFlow, stream: bool, status: int, code: str, failed: int) -> None:
    client = pair.client(chat(stream=stream))
    pair.prefill.answers(status, b'{"e":"p"}', b"retry-after: 7")
    assert client.error == (status, f"prefill_{code}")
    assert '{"e":"p"}' in json.loads(client.answer.body)["error"]["message"]
    assert client.answer.get("retry-after") == "7"
    assert pair.decode.connection.was_aborted and failures(pair) == [failed, 0]


@STREAM_OR_NOT
def test_prefill_refuses_after_decode_has_spoken(pair: PairFlow, stream: bool) -> None:
    client = pair.client(chat(stream=stream))
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    pair.prefill.answers(400)
    assert client.error == (400, "prefill_bad_request")
    assert pair.decode.connection.was_aborted and pair.x.status == 400


def test_prefill_refuses_after_decode_has_answered(pair: PairFlow) -> None:
    client = pair.client(chat())
    pair.decode.answers()
    pair.prefill.answers(500)
    assert client.error == (500, "prefill_internal_error") and failures(pair) == [1, 0]


@STREAM_OR_NOT
def test_decode_refuses_first(pair: PairFlow, stream: bool) -> None:
    client = pair.client(chat(stream=stream))
    pair.decode.answers(400, b'{"e":"d"}')
    assert client.error == (400, "decode_bad_request")
    assert json.loads(client.answer.body)["error"]["message"] == '{"e":"d"}'
    assert pair.prefill.connection.was_aborted and failures(pair) == [0, 0]


def test_decode_refuses_after_prefill(pair: PairFlow) -> None:
    client = pair.client(chat())
    pair.prefill.answers()
    pair.decode.answers(503)
    assert client.error == (503, "decode_unavailable") and failures(pair) == [0, 1]
    assert not pair.prefill.connection.was_aborted


@STREAM_OR_NOT
@pytest.mark.parametrize("half", [0, 1])
def test_a_half_dies(pair: PairFlow, stream: bool, half: int) -> None:
    client = pair.client(chat(stream=stream))
    pair.worker(half).resets()
    assert client.error == (502, "call_upstream_request_error")
    assert pair.worker(1 - half).connection.was_aborted
    assert failures(pair) == [int(half == 0), int(half == 1)]


@pytest.mark.parametrize("half", [0, 1])
def test_a_half_cannot_be_reached(make_pair: MakePair, half: int) -> None:
    pair = make_pair(attempts=1)
    pair.worker(half).connects = "refused"
    client = pair.client(chat())
    assert client.error == (502, "call_upstream_connection_failed")
    assert all(one.was_aborted or not one.data for one in pair.worker(1 - half).connections)
    assert failures(pair) == [int(half == 0), int(half == 1)]


def test_prefill_refuses_while_decode_is_being_connected(pair: PairFlow) -> None:
    pair.decode.connects = "never"
    client = pair.client(chat())
    pair.prefill.answers(400)
    assert client.error == (400, "prefill_bad_request") and failures(pair) == [0, 0]
    # The connection that is still made serves the next one.
    pair.decode.accepts()
    client = pair.client(chat())
    pair.prefill.answers()
    pair.decode.answers(body=ANSWER)
    assert client.answer.body == ANSWER and pair.decode.dials == 1


def test_prefill_breaks_off_while_decode_streams(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.prefill.sends(SSE)
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    pair.prefill.resets()
    pair.decode.streams(STREAMED, end=True)
    assert client.answer.body == STREAMED * 2


def test_prefill_takes_too_long(pair: PairFlow) -> None:
    client = pair.client(chat())
    pair.decode.answers()
    pair.expire("request")
    assert client.error == (504, "call_upstream_timeout")
    assert pair.prefill.connection.was_aborted


def test_a_connection_that_died_unheard_is_replaced(pair: PairFlow) -> None:
    pair.client(chat())
    pair.prefill.answers()
    pair.decode.answers()
    client = pair.client(chat())
    pair.prefill.resets()
    pair.decode.resets()
    assert [end.dials for end in pair.ends] == [2, 2]
    pair.prefill.answers()
    pair.decode.answers(body=ANSWER)
    assert client.answer.body == ANSWER and failures(pair) == [0, 0]


# ---- retries


@pytest.mark.parametrize("half", [0, 1])
def test_both_are_asked_again(make_pair: MakePair, half: int) -> None:
    pair = make_pair(attempts=2)
    client = pair.client(chat())
    pair.worker(half).answers(503)
    pair.back_off()
    assert loads(pair) == [1, 1]
    assert [len(end.requests) for end in pair.ends] == [2, 2]
    first, second = (one["bootstrap_room"] for one in bodies(pair.decode))
    assert first != second
    pair.prefill.answers()
    pair.decode.answers(body=ANSWER)
    assert client.answer.body == ANSWER


def test_the_worker_that_failed_is_avoided(make_pair: MakePair) -> None:
    pair = make_pair(2, 2, attempts=3)
    client = pair.client(chat())
    pair.worker(0).answers(500)
    pair.back_off()
    assert [len(end.requests) for end in pair.ends] == [1, 1, 1, 1]
    pair.worker(3).answers(500)
    pair.back_off(2)
    assert len(pair.worker(2).requests) == 2
    for number in (0, 1):
        if pair.worker(number).worker.load:
            pair.worker(number).answers()
    pair.worker(2).answers(body=ANSWER)
    assert client.answer.body == ANSWER


def test_a_500_of_the_only_half_is_final(make_pair: MakePair) -> None:
    pair = make_pair(1, 2)
    client = pair.client(chat())
    pair.prefill.answers(500)
    assert client.error == (500, "prefill_internal_error")


# ---- clients that leave


def test_leaving_while_both_work(pair: PairFlow, leave: Callable[[ClientEnd], None]) -> None:
    client = pair.client(chat())
    leave(client)
    assert all(end.connection.was_aborted for end in pair.ends) and loads(pair) == [0, 0]
    assert pair.x.client_left and failures(pair) == [0, 0]


@pytest.mark.parametrize("half", [0, 1])
def test_leaving_while_a_half_is_being_connected(
    pair: PairFlow, half: int, leave: Callable[[ClientEnd], None]
) -> None:
    pair.worker(half).connects = "never"
    leave(pair.client(chat()))
    assert loads(pair) == [0, 0] and pair.worker(1 - half).connection.was_aborted
    pair.worker(half).accepts()


@STREAM_OR_NOT
def test_leaving_after_prefill(pair: PairFlow, stream: bool, leave: Callable[[ClientEnd], None]) -> None:
    client = pair.client(chat(stream=stream))
    pair.prefill.answers()
    leave(client)
    assert pair.decode.connection.was_aborted and not pair.prefill.connection.was_aborted


def test_leaving_after_decode(pair: PairFlow, leave: Callable[[ClientEnd], None]) -> None:
    client = pair.client(chat())
    pair.decode.answers()
    leave(client)
    assert pair.prefill.connection.was_aborted and loads(pair) == [0, 0]


def test_leaving_while_the_stream_is_held(pair: PairFlow, leave: Callable[[ClientEnd], None]) -> None:
    client = pair.client(chat(stream=True))
    pair.decode.sends(SSE)
    pair.decode.streams(LARGE, LARGE)
    leave(client)
    assert all(end.connection.was_aborted for end in pair.ends)


def test_leaving_while_it_streams(pair: PairFlow, leave: Callable[[ClientEnd], None]) -> None:
    client = pair.client(chat(stream=True))
    pair.prefill.sends(SSE)
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    leave(client)
    assert all(end.connection.was_aborted for end in pair.ends)


def test_leaving_between_two_attempts(make_pair: MakePair, leave: Callable[[ClientEnd], None]) -> None:
    pair = make_pair()
    client = pair.client(chat())
    pair.decode.answers(503)
    leave(client)
    assert loads(pair) == [0, 0]


# ---- requests that are preempted


@pytest.mark.parametrize("answered", [None, 0, 1])
def test_preempted(pair: PairFlow, answered: int | None) -> None:
    client = pair.client(chat())
    if answered is not None:
        pair.worker(answered).answers()
    pair.interrupt()
    assert client.error == (503, "scheduler_preempted") and loads(pair) == [0, 0]
    assert [end.connection.was_aborted for end in pair.ends] == [answered != 0, answered != 1]


def test_preempted_while_the_stream_is_held(pair: PairFlow) -> None:
    client = pair.client(chat(stream=True))
    pair.decode.sends(SSE)
    pair.decode.streams(STREAMED)
    pair.interrupt()
    assert client.error == (503, "scheduler_preempted")


def test_preempted_while_half_is_being_connected(pair: PairFlow) -> None:
    pair.decode.connects = "never"
    client = pair.client(chat())
    pair.interrupt()
    assert client.error == (503, "scheduler_preempted") and pair.prefill.connection.was_aborted
    pair.decode.accepts()


@pytest.mark.parametrize("first", ["interrupted", "refused"])
def test_preempted_while_prefill_refuses(make_pair: MakePair, first: str) -> None:
    """In the same turn of the loop: it must give way, and not be tried again."""
    pair = make_pair(prefills=2)
    pair.decode.connects = "never"
    client = pair.client(chat())
    refusal = b"HTTP/1.1 503 Said\r\ncontent-length: 2\r\n\r\n{}"

    def both() -> None:
        assert pair.current is not None
        if first == "interrupted":
            pair.current.interrupt()
        pair.prefill.connection.deliver(refusal)
        if first == "refused":
            pair.current.interrupt()

    pair.act(both)
    pair.pass_time(100)
    assert client.error == (503, "scheduler_preempted") and loads(pair) == [0, 0, 0]
    assert not pair.ends[1].dials


def test_preempted_in_vllm_prefill(make_pair: MakePair) -> None:
    pair = make_pair(runtime="vllm")
    client = pair.client(chat())
    pair.interrupt()
    assert client.error == (503, "scheduler_preempted") and not pair.decode.dials


# ---- /generate


def generate(**members: Any) -> bytes:
    return request(json.dumps({"text": "x", **members}).encode(), path=b"/generate")


PLAIN = b'{"meta_info":{"input_token_logprobs":[[0.10,1]]}}'


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("streams", [False, True], ids=["plain", "stream"])
def test_log_probabilities_in_a_stream(make_pair: MakePair, streams: bool, blank: bytes) -> None:
    said = (
        b'data: {"text":"a","meta_info":{"input_token_logprobs":[[0.20,2]]}}' + blank,
        b": ping" + blank,
        b'data: {"text":"b","meta_info":{"x":1.0}}' + blank,
        b"data: [DONE]" + blank,
    )
    whole = b"".join(said)
    expected = whole.replace(b"[[0.20,2]]", b"[[0.10,1],[0.20,2]]").replace(b"\r\n", b"\n")
    for split in range(0, len(whole), 7):
        pair = make_pair(attempts=1)
        client = pair.client(generate(return_logprob=True, stream=True))
        pair.decode.sends(SSE)
        pair.decode.streams(*(piece for piece in (whole[:split], whole[split:]) if piece))
        assert not client.transport.data
        if streams:
            pair.prefill.sends(SSE)
            pair.prefill.streams(b"data: " + PLAIN + b"\n\n", b"data: [DONE]\n\n", end=True)
        else:
            pair.prefill.answers(body=PLAIN)
        pair.decode.streams(end=True)
        assert client.answer.body.replace(b"\r\n", b"\n") == expected


def test_each_event_is_passed_on_when_it_is_whole(pair: PairFlow) -> None:
    client = pair.client(generate(return_logprob=True, stream=True))
    pair.prefill.answers(body=PLAIN)
    pair.decode.sends(SSE)
    for text in (b"one", b"two"):
        pair.decode.streams(b'data: {"text":"' + text + b'"}\n')
        assert text not in client.transport.data
        pair.decode.streams(b"\n")
        assert text in client.transport.data
    pair.decode.streams(b"data: half")
    pair.decode.resets()
    assert client.answer.body.count(b"data: half") == 1 and client.answer.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("half", [0, 1])
def test_a_refused_stream_with_log_probabilities(pair: PairFlow, half: int) -> None:
    client = pair.client(generate(return_logprob=True, stream=True))
    pair.worker(half).answers(400)
    assert client.error == (400, ["prefill", "decode"][half] + "_bad_request")


def test_a_retried_stream_with_log_probabilities(make_pair: MakePair) -> None:
    pair = make_pair(attempts=2)
    client = pair.client(generate(return_logprob=True, stream=True))
    pair.decode.answers(503)
    pair.back_off()
    pair.prefill.answers(body=PLAIN)
    pair.decode.sends(SSE)
    pair.decode.streams(b"data: " + PLAIN + b"\n\n", end=True)
    assert client.answer.body == b'data: {"meta_info":{"input_token_logprobs":[[0.10,1],[0.10,1]]}}\n\n'


def test_log_probabilities_of_both(pair: PairFlow) -> None:
    client = pair.client(generate(return_logprob=True))
    pair.decode.answers(body=b'{"text":"t","meta_info":{"a":1.0,"input_token_logprobs":[[0.20,2]]}}')
    pair.prefill.answers(body=b'{"meta_info":{"input_token_logprobs":[[0.10,1]]}}')
    assert client.answer.body == (
        b'{"text":"t","meta_info":{"a":1.0,"input_token_logprobs":[[0.10,1],[0.20,2]]}}'
    )
    assert client.answer.get("x-smg-routed-worker-id") == "http://w1:8000"


# ---- nobody to ask


def test_what_pairs_do_not_serve(pair: PairFlow) -> None:
    body = json.dumps({"model": "m", "input": "x"}).encode()
    client = pair.client(request(body, path=b"/v1/embeddings"))
    assert (client.answer.status, client.answer.body) == (501, b"Embeddings not implemented")


def test_an_unknown_model(pair: PairFlow) -> None:
    assert pair.client(chat(model="nobody")).error == (404, "model_not_found")


@pytest.mark.parametrize(("prefills", "decodes"), [(1, 0), (0, 1)])
def test_one_half_is_missing(make_pair: MakePair, prefills: int, decodes: int) -> None:
    pair = make_pair(prefills, decodes)
    assert pair.client(chat()).error == (503, "no_available_workers")


def test_halves_of_different_engines(pair: PairFlow) -> None:
    pair.decode.worker.runtime = "vllm"
    assert pair.client(chat()).error == (503, "no_compatible_pd_pair")
    assert not any(end.dials for end in pair.ends)


def test_only_a_fitting_worker_is_taken(make_pair: MakePair) -> None:
    pair = make_pair(2, 2, attempts=1)
    pair.worker(0).worker.runtime = pair.worker(3).worker.runtime = "vllm"
    for _ in range(4):
        client = pair.client(chat())
        used = {number for number in range(4) if pair.worker(number).worker.load}
        assert used in ({0, 3}, {1, 2})
        for number in sorted(used):
            pair.worker(number).answers()
        assert client.answer.status == 200
