"""Bodies that go to the worker as they come, unread: they stop, break off, are too large or too late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fast.reference import chunked
from tests.fast.transports import DONE, splits
from tests.flow.conversation import LIMIT, SSE, Flow, body_of, chat, request

MakeFlow = Callable[..., Flow]


@pytest.fixture
def flow(make_flow: MakeFlow) -> Flow:
    return make_flow(2, pipe_above=10)


def test_byte_for_byte(flow: Flow) -> None:
    body = b"{ not even JSON, \xff" * 10
    client = flow.client(request(body[:5] + body[5:]))
    [(head, sent)] = flow.worker(0).requests
    assert sent == body and head.content_length == len(body)
    flow.worker(0).answers(200, b"{}")
    assert client.answer.body == b"{}" and flow.x.piped


def test_at_every_split(make_flow: MakeFlow) -> None:
    data = request(b"0123456789abc", b"x-request-id: i")
    for pieces in splits(data):
        flow = make_flow(1, pipe_above=10)
        client = flow.client(*pieces)
        assert flow.worker(0).requests[0][1] == b"0123456789abc"
        flow.worker(0).answers()
        assert client.answer.status == 200 and not client.answer.closes


def test_chunked_bodies_are_read(flow: Flow) -> None:
    body = body_of(chat())
    head = chat()[: -len(body)].replace(
        b"content-length: %d\r\n" % len(body), b"transfer-encoding: chunked\r\n"
    )
    client = flow.client(head, chunked.encode(body[:10], body[10:]))
    [(sent, got)] = flow.worker(0).requests
    assert got == body and sent.content_length == len(body) and not flow.recorded
    flow.worker(0).answers()
    assert client.answer.status == 200 and not flow.x.piped


def test_small_bodies_are_read(flow: Flow) -> None:
    assert flow.client(request(b"{")).answer.status == 400


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [("body_stall", 408, "request_body_stalled"), ("ends", 400, "request_body_aborted")],
)
def test_a_body_that_stops(flow: Flow, how: str, status: int, code: str) -> None:
    client = flow.client(chat()[:-3])
    client.ends() if how == "ends" else flow.expire(how)
    assert client.error == (status, code)
    assert client.answer.closes and client.answer.get("x-smg-routed-worker-id") is None
    assert flow.worker(0).connection.was_aborted and flow.x.attempts == 1
    assert flow.worker(0).worker.breaker.consecutive_failures == 0


def test_a_body_that_takes_too_long(flow: Flow) -> None:
    client = flow.client(chat()[:-3])
    flow.expire("request")
    assert client.error == (408, "request_body_timeout") and flow.x.attempts == 1
    assert client.transport.sent_eof and flow.worker(0).connection.was_aborted
    assert flow.worker(0).worker.breaker.consecutive_failures == 0


def test_a_worker_that_takes_the_body_too_slowly(flow: Flow) -> None:
    flow.worker(0).full_above = 50
    client = flow.client(request(b"x" * 500)[:400])
    flow.expire("request")
    assert client.error == (504, "call_upstream_timeout") and flow.x.attempts == 1
    assert flow.worker(0).worker.breaker.consecutive_failures == 1


def test_a_body_that_is_too_large(flow: Flow) -> None:
    client = flow.client(b"POST /generate HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (LIMIT + 1))
    assert client.error == (413, "request_body_too_large")
    assert not flow.worker(0).connections


def test_a_client_that_leaves(flow: Flow) -> None:
    for end in range(1, len(body_of(chat()))):
        flow.client(chat()[:-end]).leaves()
        assert flow.x.client_left
    assert all(one.was_aborted for end in flow.ends for one in end.connections)


def test_a_client_that_leaves_while_the_worker_is_slow(flow: Flow) -> None:
    flow.worker(0).full_above = 50
    client = flow.client(request(b"x" * 500)[:400])
    assert not client.transport.is_reading
    client.leaves()
    assert flow.worker(0).connection.was_aborted


def test_a_client_that_leaves_after_a_body_that_filled_the_worker(flow: Flow) -> None:
    flow.worker(0).full_above = 50
    client = flow.client(request(b"x" * 500))
    assert client.transport.is_reading, "or nobody would see it leave"
    client.ends()
    assert flow.worker(0).connection.was_aborted and flow.x.client_left


def test_a_slow_worker_gets_it_all(flow: Flow) -> None:
    flow.worker(0).full_above = 1000
    body = bytes(range(256)) * 80
    data = request(body)
    client = flow.client(*[data[at : at + 700] for at in range(0, len(data), 700)])
    while client.transport.is_holding:
        assert flow.worker(0).connection.get_write_buffer_size() < 3000
        flow.act(flow.worker(0).connection.drain)
        flow.act(client.transport.release)
    flow.act(flow.worker(0).connection.drain)
    assert flow.worker(0).requests[0][1] == body
    flow.worker(0).answers()
    assert client.answer.status == 200


def test_nothing_is_repeated(flow: Flow) -> None:
    for how in ("resets", "ends"):
        client = flow.client(chat())
        number = len(flow.recorded) % 2
        getattr(flow.worker(number), how)()
        assert client.error == (502, "call_upstream_request_error") and flow.x.attempts == 1
    client = flow.client(chat())
    flow.worker(0).answers(503, b"busy")
    assert client.answer.body == b"busy" and flow.x.attempts == 1


def test_a_fresh_connection_each(flow: Flow) -> None:
    for _ in range(4):
        flow.client(chat())
        next(end for end in flow.ends if end.worker.load).answers()
    assert [len(end.connections) for end in flow.ends] == [2, 2]


def test_a_worker_that_cannot_be_reached(flow: Flow) -> None:
    flow.worker(0).connects = "refused"
    client = flow.client(chat()[:-3])
    assert client.error == (502, "call_upstream_connection_failed")
    assert client.transport.sent_eof
    client.sends(chat()[-3:])


def test_a_worker_that_dies_while_the_body_comes(flow: Flow) -> None:
    client = flow.client(chat()[:-3])
    flow.worker(0).resets()
    assert client.error == (502, "call_upstream_request_error")
    assert client.answer.closes
    client.sends(chat()[-3:] + chat())
    assert flow.begun == 1


def test_a_worker_that_answers_early(flow: Flow) -> None:
    client = flow.client(chat()[:-3])
    flow.worker(0).answers(413, b"too much for me")
    assert (client.answer.status, client.answer.body) == (413, b"too much for me")
    assert client.answer.closes and flow.worker(0).connection.is_closing
    client.sends(chat()[-3:])


def test_a_worker_that_streams_early(flow: Flow) -> None:
    client = flow.client(chat()[:-3])
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(b"data: 1\n\n")
    client.sends(chat()[-3:])
    flow.worker(0).streams(DONE, end=True)
    assert client.answer.body == b"data: 1\n\n" + DONE and client.answer.closes
    assert flow.worker(0).requests[0][1] == body_of(chat())


def test_a_body_that_stops_after_the_answer_has_begun(flow: Flow) -> None:
    client = flow.client(chat()[:-3])
    flow.worker(0).sends(SSE)
    flow.expire("body_stall")
    assert client.transport.was_aborted and flow.worker(0).connection.was_aborted


def test_waiting_for_the_connection(flow: Flow) -> None:
    flow.worker(0).connects = "never"
    data = request(b"x" * 1000)
    client = flow.client(data[:500], data[500:])
    flow.worker(0).accepts()
    assert flow.worker(0).requests[0][1] == b"x" * 1000
    flow.worker(0).answers()
    assert client.answer.status == 200


def test_the_client_is_asked_for_the_body_when_there_is_a_worker(flow: Flow) -> None:
    flow.worker(0).connects = "never"
    data = request(b"x" * 100, b"expect: 100-continue")
    client = flow.client(data[:-100])
    assert client.transport.data == b""
    flow.worker(0).accepts()
    assert client.transport.data == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sends(data[-100:])
    flow.worker(0).answers()
    assert client.answer.status == 200
