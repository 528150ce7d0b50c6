"""Clients that leave, in every phase of an exchange: the worker is freed at once, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.flow.conversation import SSE, ClientEnd, Flow, body_of, chat

MakeFlow = Callable[..., Flow]


def test_within_the_head(flow: Flow) -> None:
    for end in range(len(chat()) - len(body_of(chat()))):
        flow.client(chat()[:end]).leaves()
    assert flow.begun == 0


def test_within_the_body(flow: Flow) -> None:
    for end in range(1, len(body_of(chat())) + 1):
        flow.client(chat()[:-end]).leaves()
        assert flow.x.client_left and flow.x.status == 0
    assert not any(end.dials for end in flow.ends)


def test_while_connecting(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    flow.worker(0).connects = "never"
    client = flow.client(chat())
    leave(client)
    assert flow.x.client_left
    # The connection that is still made goes to the next one who needs it.
    flow.worker(0).accepts()
    assert len(flow.worker(0).connections) == 1
    flow.client(chat())
    flow.worker(1).answers()
    other = flow.client(chat())
    flow.worker(0).answers()
    assert other.answer.status == 200 and flow.worker(0).dials == 1


def test_in_the_turn_in_which_the_connection_is_made(flow: Flow) -> None:
    flow.worker(0).connects = "never"
    client = flow.client(chat())

    def both() -> None:
        flow.worker(0).waiting.pop().set_result(None)
        client.transport.reset()

    flow.act(both)
    assert flow.x.client_left and len(flow.recorded) == 1


def test_a_connection_that_never_comes_ends_with_its_timeout(flow: Flow) -> None:
    flow.worker(0).connects = "never"
    flow.client(chat()).leaves()
    flow.pass_time(100)


def test_while_waiting_for_the_answer(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat())
    assert flow.worker(0).worker.load == 1
    leave(client)
    assert flow.worker(0).connection.was_aborted and flow.worker(0).worker.load == 0
    assert flow.x.client_left and flow.counts.client_left == 1


def test_while_the_answer_comes(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat())
    flow.worker(0).sends(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")
    leave(client)
    assert flow.worker(0).connection.was_aborted
    assert flow.worker(0).worker.breaker.consecutive_failures == 0


@pytest.mark.parametrize("said", [b"", b"9\r\ndata: x\n\n\r\n", b"9\r\ndat"])
def test_while_it_streams(flow: Flow, said: bytes, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE + said)
    leave(client)
    assert flow.worker(0).connection.was_aborted and flow.x.status == 200
    flow.worker(0).sends(b"9\r\ndata: y\n\n\r\n")


def test_while_it_is_slow(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat(stream=True), full_above=10)
    flow.worker(0).sends(SSE + b"9\r\ndata: x\n\n\r\n", b"9\r\ndata: y\n\n\r\n")
    assert flow.worker(0).connection.is_holding
    leave(client)
    assert flow.worker(0).connection.was_aborted


def test_between_two_attempts(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat())
    flow.worker(0).answers(503)
    leave(client)
    assert flow.x.client_left
    flow.pass_time(100)
    assert not flow.worker(1).connections


def test_with_more_requests_behind(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat() + chat() + chat())
    leave(client)
    assert flow.begun == 1


def test_after_the_answer(flow: Flow, leave: Callable[[ClientEnd], None]) -> None:
    client = flow.client(chat())
    flow.worker(0).answers()
    leave(client)
    assert not flow.x.client_left and flow.counts.client_left == 0


def test_many_in_random_phases(make_flow: MakeFlow) -> None:
    flow = make_flow(2)
    for number in range(60):
        client = flow.client(chat(stream=number % 2 == 0)[: None if number % 5 else 90])
        busy = [end for end in flow.ends if end.worker.load]
        if busy and number % 3:
            busy[0].sends(SSE)
            if number % 4 == 0:
                busy[0].streams(b"data: 1\n\n", end=number % 8 == 0)
        client.leaves()
        assert not any(end.worker.load for end in flow.ends)
    probe = flow.client(chat())
    next(end for end in flow.ends if end.worker.load).answers()
    assert probe.answer.status == 200
