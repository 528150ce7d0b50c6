"""Attempts that fail: which are repeated, where, how often, and what the client is told in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smg._fast import exchange as fast
from smg.workers.breaker import State
from smg.workers.worker import Status
from tests.fast.transports import DONE, TIMED_OUT
from tests.flow.conversation import CONNECT_S, SSE, Flow, chat

MakeFlow = Callable[..., Flow]


@pytest.mark.parametrize("how", ["resets", "ends"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_worker_that_dies_before_its_first_byte(flow: Flow, stream: bool, how: str) -> None:
    client = flow.client(chat(stream=stream))
    getattr(flow.worker(0), how)()
    flow.back_off()
    flow.worker(1).answers(200, b"second")
    assert (client.answer.status, client.answer.body) == (200, b"second")
    assert client.answer.get("x-smg-routed-worker-id") == "http://w1:8000"
    assert flow.x.attempts == 2
    assert flow.worker(0).requests[0][1] == flow.worker(1).requests[0][1]


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 200 OK\r\ncontent-", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"]
)
def test_an_answer_that_breaks_off_before_the_client_heard_of_it(flow: Flow, said: bytes) -> None:
    client = flow.client(chat())
    flow.worker(0).sends(said)
    flow.worker(0).resets()
    flow.back_off()
    flow.worker(1).answers(200, b"second")
    assert client.answer.body == b"second"


def test_nothing_is_repeated_once_the_client_has_heard(flow: Flow) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).resets()
    flow.pass_time(100)
    assert not flow.worker(1).requests and client.answer.body.endswith(DONE)
    assert flow.x.attempts == 1 and flow.x.outcome == fast.BROKEN


# ---- connections of the pool


def used(flow: Flow) -> None:
    """An idle connection to worker 0, which has the turn again."""
    client = flow.client(chat(), chat())
    flow.worker(0).answers()
    flow.worker(1).answers()
    assert len(client.answers) == 2
    client.ends()


@pytest.mark.parametrize("how", ["resets", "ends"])
def test_a_stale_connection_is_replaced_silently(flow: Flow, how: str) -> None:
    used(flow)
    client = flow.client(chat(text="again"))
    getattr(flow.worker(0), how)()
    assert len(flow.worker(0).connections) == 2
    flow.worker(0).answers(200, b"fresh")
    assert client.answer.body == b"fresh" and flow.x.attempts == 1
    assert flow.worker(0).worker.breaker.consecutive_failures == 0


def test_only_once(flow: Flow) -> None:
    used(flow)
    client = flow.client(chat(text="again"))
    flow.worker(0).resets()
    flow.worker(0).resets()
    assert len(flow.worker(0).connections) == 2
    assert flow.worker(0).worker.breaker.consecutive_failures == 1
    flow.back_off()
    flow.worker(1).answers(200, b"other")
    assert client.answer.body == b"other" and flow.x.attempts == 2


def test_not_when_a_byte_was_heard(flow: Flow) -> None:
    used(flow)
    client = flow.client(chat(text="again"))
    flow.worker(0).sends(b"H")
    flow.worker(0).resets()
    assert len(flow.worker(0).connections) == 1
    flow.back_off()
    flow.worker(1).answers(200, b"other")
    assert client.answer.body == b"other"


def test_a_connection_that_ended_in_the_pool_is_not_taken(flow: Flow) -> None:
    used(flow)
    flow.worker(0).ends()
    client = flow.client(chat(text="again"))
    assert len(flow.worker(0).connections) == 2
    flow.worker(0).answers(200, b"fresh")
    assert client.answer.body == b"fresh"


def test_idle_connections_are_dropped(flow: Flow) -> None:
    used(flow)
    flow.expire("pool_idle")
    assert all(end.connection.is_closing for end in flow.ends)


# ---- statuses


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_statuses_that_are_repeated_to_the_limit(make_flow: MakeFlow, status: int) -> None:
    flow = make_flow(2, attempts=3)
    client = flow.client(chat())
    for number in range(3):
        flow.worker(number % 2).answers(status, b"%d" % number, b"retry-after: %d" % number)
        flow.back_off(number + 1)
    assert (client.answer.status, client.answer.body) == (status, b"2")
    assert client.answer.get("retry-after") == "2"
    assert client.answer.get("x-smg-routed-worker-id") == "http://w0:8000"
    assert flow.x.attempts == 3 and sum(len(end.requests) for end in flow.ends) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 425, 501, 529])
def test_statuses_that_are_not_repeated(flow: Flow, status: int) -> None:
    client = flow.client(chat())
    flow.worker(0).answers(status)
    assert client.answer.status == status and flow.x.attempts == 1


def test_an_internal_error_is_tried_once_on_every_worker(flow: Flow) -> None:
    client = flow.client(chat())
    flow.worker(0).answers(500, b"first")
    flow.back_off()
    flow.worker(1).answers(500, b"second")
    flow.pass_time(100)
    assert (client.answer.status, client.answer.body) == (500, b"second")
    assert flow.x.attempts == 2


def test_an_error_then_an_answer(flow: Flow) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).answers(503)
    flow.back_off()
    flow.worker(1).sends(SSE)
    flow.worker(1).streams(DONE, end=True)
    assert client.answer.status == 200 and client.answer.body == DONE


def test_one_attempt_when_there_shall_be_one(make_flow: MakeFlow) -> None:
    flow = make_flow(2, attempts=1)
    client = flow.client(chat())
    flow.worker(0).answers(503, b"busy")
    assert client.answer.body == b"busy"


# ---- failures to get an answer


def test_workers_that_cannot_be_reached(make_flow: MakeFlow) -> None:
    flow = make_flow(2, attempts=3)
    for end in flow.ends:
        end.connects = "refused"
    client = flow.client(chat())
    for number in (1, 2):
        flow.back_off(number)
    assert client.error == (502, "call_upstream_connection_failed")
    assert client.answer.get("x-smg-routed-worker-id") is None
    assert sum(end.dials for end in flow.ends) == 3


def test_a_worker_that_cannot_be_reached_is_invisible(flow: Flow) -> None:
    flow.worker(0).connects = "refused"
    client = flow.client(chat())
    flow.back_off()
    flow.worker(1).answers(200, b"second")
    assert client.answer.body == b"second"


def test_connecting_takes_too_long(make_flow: MakeFlow) -> None:
    flow = make_flow(1, attempts=1)
    flow.worker(0).connects = "never"
    client = flow.client(chat())
    flow.pass_time(CONNECT_S - 1)
    assert not client.answers
    flow.pass_time(2)
    assert client.error == (502, "call_upstream_connection_failed")


@pytest.mark.parametrize("deadline", ["request", "first_byte"])
def test_an_answer_takes_too_long(make_flow: MakeFlow, deadline: str) -> None:
    flow = make_flow(2, attempts=2)
    client = flow.client(chat())
    flow.expire(deadline)
    assert flow.worker(0).connection.was_aborted
    flow.back_off()
    flow.expire(deadline)
    assert client.error == (504, "call_upstream_timeout")


def test_a_stream_takes_too_long(flow: Flow) -> None:
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(b"data: 1\n\n")
    flow.expire("request")
    assert client.answer.body == b"data: 1\n\n" + TIMED_OUT + DONE
    assert flow.worker(0).connection.was_aborted


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"SSH-2.0\r\n", "call_upstream_request_error"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", "read_response_body_failed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n{", "upstream_response_too_large"),
        (b"", "call_upstream_request_error"),
    ],
)
def test_failures_have_their_codes(make_flow: MakeFlow, said: bytes, code: str) -> None:
    flow = make_flow(1, attempts=1)
    client = flow.client(chat())
    if said:
        flow.worker(0).sends(said)
    if not flow.recorded:
        flow.worker(0).resets()
    assert client.error == (502, code)


# ---- breakers


def test_failures_open_a_breaker_and_a_probe_closes_it(make_flow: MakeFlow) -> None:
    flow = make_flow(1, attempts=1, failure_threshold=3)
    breaker = flow.worker(0).worker.breaker
    for _ in range(3):
        flow.client(chat())
        flow.worker(0).answers(503)
    assert breaker.state is State.OPEN
    refused = flow.client(chat())
    assert refused.error == (503, "no_available_workers") and refused.answer.get("retry-after") is None
    flow.pass_time(61)
    probe, other = flow.client(chat()), flow.client(chat())
    assert breaker.state is State.HALF_OPEN and other.error == (503, "no_available_workers")
    flow.worker(0).answers()
    assert probe.answer.status == 200 and breaker.state is State.CLOSED


def test_a_probe_that_fails_opens_it_again(make_flow: MakeFlow) -> None:
    flow = make_flow(1, attempts=1, failure_threshold=1)
    for _ in range(2):
        flow.client(chat())
        flow.worker(0).resets()
        assert flow.worker(0).worker.breaker.state is State.OPEN
        flow.pass_time(61)


def test_a_probe_whose_client_leaves_decides_nothing(make_flow: MakeFlow) -> None:
    flow = make_flow(1, attempts=1, failure_threshold=1)
    flow.client(chat())
    flow.worker(0).resets()
    flow.pass_time(61)
    flow.client(chat()).leaves()
    client = flow.client(chat())
    flow.worker(0).answers()
    assert client.answer.status == 200 and flow.worker(0).worker.breaker.state is State.CLOSED


def test_an_open_breaker_sends_requests_elsewhere(make_flow: MakeFlow) -> None:
    flow = make_flow(2, failure_threshold=1)
    client = flow.client(chat())
    flow.worker(0).resets()
    flow.back_off()
    flow.worker(1).answers()
    for _ in range(4):
        client.sends(chat())
        flow.worker(1).answers()
    assert len(client.answers) == 5 and len(flow.worker(0).requests) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429])
def test_errors_of_clients_do_not_open_it(make_flow: MakeFlow, status: int) -> None:
    flow = make_flow(1, attempts=1, failure_threshold=2)
    for _ in range(5):
        flow.client(chat())
        flow.worker(0).answers(status)
    assert flow.worker(0).worker.breaker.state is State.CLOSED


def test_a_broken_stream_does_not_open_it(make_flow: MakeFlow) -> None:
    flow = make_flow(1, failure_threshold=1)
    flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).resets()
    assert flow.worker(0).worker.breaker.state is State.CLOSED


def test_an_error_of_the_gateway_names_no_worker_that_was_asked_before(flow: Flow) -> None:
    client = flow.client(chat())
    flow.worker(0).answers(503)
    for end in flow.ends:
        flow.loop.call(lambda one=end.worker: flow.registry.set_status(one, Status.FAILED))  # type: ignore[misc]
    flow.back_off()
    assert client.error == (503, "no_available_workers")
    assert client.answer.get("x-smg-routed-worker-id") is None
