"""Exchanges that go well: what the worker is sent, what the client gets, and which connections are used."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.fast.reference.events import end_of_broken
from tests.fast.transports import BROKEN, DONE, PING
from tests.flow.conversation import SSE, Flow, body_of, chat, request

MakeFlow = Callable[..., Flow]


def test_a_plain_answer(flow: Flow) -> None:
    client = flow.client(chat())
    [(head, body)] = flow.worker(0).requests
    assert head.path == b"/v1/chat/completions" and json.loads(body)["model"] == "m"
    assert dict(head.fields)[b"host"] == b"w0:8000"
    flow.worker(0).answers(200, b'{"a":1}', b"x-own: 1", b"x-smg-error-code: no")
    answer = client.answer
    assert (answer.status, answer.body, answer.closes) == (200, b'{"a":1}', False)
    assert answer.get("x-own") == "1" and answer.get("x-smg-error-code") is None
    assert answer.get("x-smg-routed-worker-id") == "http://w0:8000"
    assert (answer.get("x-request-id") or "").startswith("chatcmpl-")
    assert flow.x.status == 200 and flow.x.attempts == 1


def test_a_stream(flow: Flow) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(b"data: 1\n\n", b"data: 2\n\n")
    flow.worker(0).streams(DONE, end=True)
    assert client.answer.body == b"data: 1\n\ndata: 2\n\n" + DONE and client.answer.is_whole
    assert client.answer.get("content-type") == "text/event-stream"
    assert flow.x.stream and flow.x.sent_bytes == len(client.answer.body)


def test_workers_take_turns_and_their_connections_are_kept(flow: Flow) -> None:
    client = flow.client()
    for number in range(6):
        client.sends(chat(text=str(number)))
        flow.worker(number % 2).answers(200, b"%d" % number)
    assert [one.body for one in client.answers] == [b"%d" % n for n in range(6)]
    assert [len(end.connections) for end in flow.ends] == [1, 1]
    assert flow.counts.connects == 2


def test_requests_of_many_clients_at_once(flow: Flow) -> None:
    clients = [flow.client(chat(text=str(number))) for number in range(10)]
    assert [end.worker.load for end in flow.ends] == [5, 5]
    for end in flow.ends:
        for connection in list(end.connections):
            flow.act(lambda c=connection: c.deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"))  # type: ignore[misc]
    assert all(client.answer.status == 200 for client in clients)
    assert len(flow.recorded) == 10


def test_a_pipelined_request_takes_the_connection_that_has_just_come_free(make_flow: MakeFlow) -> None:
    flow = make_flow(1)
    client = flow.client(chat(text="1") + chat(text="2"))
    flow.worker(0).answers(200, b"1")
    flow.worker(0).answers(200, b"2")
    assert [one.body for one in client.answers] == [b"1", b"2"]
    assert len(flow.worker(0).connections) == 1


def test_what_comes_from_the_client_goes_to_the_worker(flow: Flow) -> None:
    lines = (b"Authorization: Bearer k", b"X-Request-ID: mine", b"X-Other: no", b"traceparent: 00-1")
    client = flow.client(chat(*lines))
    [(head, _)] = flow.worker(0).requests
    fields = {name.lower(): value for name, value in head.fields}
    assert fields[b"authorization"] == b"Bearer k" and fields[b"traceparent"] == b"00-1"
    assert fields[b"x-request-id"] == b"mine" and b"x-other" not in fields
    flow.worker(0).answers()
    assert client.answer.get("x-request-id") == "mine"


def test_an_error_of_the_worker_is_relayed(flow: Flow) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).answers(400, b'{"error":"yours"}', b"retry-after: 9")
    assert (client.answer.status, client.answer.body) == (400, b'{"error":"yours"}')
    assert client.answer.get("retry-after") == "9"
    assert client.answer.get("x-smg-routed-worker-id") == "http://w0:8000"


def test_a_stream_that_breaks(flow: Flow) -> None:
    for said in (b"", b"data: 1\n\n", b"data: 1\n\ndata: {", b"data: 1\n\n" + DONE):
        client = flow.client(chat(stream=True))
        number = len(flow.recorded) % 2
        flow.worker(number).sends(SSE)
        if said:
            flow.worker(number).streams(said)
        flow.worker(number).resets()
        assert client.answer.body == said + end_of_broken(said, BROKEN) and client.answer.is_whole
        assert not client.answer.closes
        client.sends(chat())
        flow.worker(1 - number).answers()


def test_silence_is_filled_with_comments(make_flow: MakeFlow) -> None:
    flow = make_flow(1, keepalive_s=1e-9)
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.fire_silence()
    flow.worker(0).streams(b"data: 1\n")
    flow.fire_silence()
    flow.worker(0).streams(b"\n")
    flow.fire_silence()
    flow.worker(0).streams(DONE, end=True)
    assert client.answer.body == PING + b"data: 1\n\n" + PING + DONE


def test_a_client_that_reads_slowly(flow: Flow) -> None:
    client = flow.client(chat(stream=True), full_above=500)
    flow.worker(0).sends(SSE)
    for number in range(40):
        flow.worker(0).streams(b"data: %d\n\n" % number + b"x" * 100)
    assert flow.worker(0).connection.is_holding
    assert client.transport.get_write_buffer_size() < 1500
    flow.worker(0).streams(DONE, end=True)
    while not (flow.recorded and client.answer.is_whole):
        flow.act(client.transport.drain)
    assert client.answer.body.endswith(DONE)
    # The next user of the worker's connection must not find it paused.
    flow.act(client.transport.drain)
    client.sends(chat(), chat())
    flow.worker(1).answers()
    flow.worker(0).answers()
    assert len(flow.worker(0).connections) == 1 and len(client.answers) == 3


def test_a_worker_that_is_removed_finishes_its_answers(flow: Flow) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.registry.remove(flow.worker(0).worker)
    assert flow.worker(0).worker.backend is not None
    flow.loop.call(flow.worker(0).worker.backend.close)
    flow.worker(0).streams(b"data: 1\n\n", DONE, end=True)
    assert client.answer.body == b"data: 1\n\n" + DONE
    assert flow.worker(0).connection.is_closing


# ---- what does not get as far as a worker


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (request(b"{"), 400, "json_parse_error"),
        (request(b"[]"), 400, "json_parse_error"),
        (request(b'{"messages":[]}'), 400, None),
        (chat(model="unknown"), 404, "model_not_found"),
        (chat().replace(b"application/json", b"text/plain"), 400, "json_parse_error"),
        (request(b" " * 200_000), 413, "request_body_too_large"),
    ],
    ids=["not JSON", "no object", "no model", "unknown model", "content type", "too large"],
)
def test_errors_have_their_shapes(flow: Flow, data: bytes, status: int, code: str | None) -> None:
    client = flow.client(data)
    answer = client.answer
    error = json.loads(answer.body)["error"]
    assert answer.status == status and answer.get("content-type") == "application/json"
    assert code is None or error["code"] == code
    is_envelope = status != 400
    assert (answer.get("x-smg-error-code") == code) if is_envelope else answer.get("x-smg-error-code") is None
    assert set(error) == (
        {"type", "code", "message", "param"} if is_envelope else {"type", "code", "message"}
    )
    assert answer.get("x-request-id") and answer.get("x-smg-routed-worker-id") is None
    assert not any(end.connections for end in flow.ends)


def test_a_wrong_key_is_refused_before_the_body_is_read(make_flow: MakeFlow) -> None:
    flow = make_flow(1, api_key="secret")
    client = flow.client(chat()[: -len(body_of(chat()))])
    assert (client.answer.status, client.answer.body) == (401, b"")
    assert "data-plane" in (client.answer.get("www-authenticate") or "")
    assert client.transport.sent_eof
    client.sends(body_of(chat()))
    client.ends()
    known = flow.client(chat(b"Authorization: Bearer secret"))
    flow.worker(0).answers()
    assert known.answer.status == 200


def test_no_workers_at_all(make_flow: MakeFlow) -> None:
    flow = make_flow(0)
    assert flow.client(chat()).error == (404, "model_not_found")
