"""Permits over whole exchanges: held from before the body to the end of the answer, and returned whatever
happens; requests that give way to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smg.admission.gate import Gate
from smg.admission.priority import Scheduler
from smg.config.side_files import Classes, ClassOptions, SchedulerFile
from tests.fast.reference import chunked
from tests.flow.conversation import SSE, ClientEnd, Flow, chat

MakeFlow = Callable[..., Flow]
BULK = b"x-smg-priority: bulk"
SYSTEM = b"x-smg-priority: system"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def gated(make_flow: MakeFlow, limit: int = 1, size: int = 0, **options: object) -> Flow:
    return make_flow(1, permits=lambda loop: Gate(limit, size, 10.0, loop), attempts=1, **options)


def scheduled(make_flow: MakeFlow, capacity: int = 1, **options: object) -> Flow:
    one = ClassOptions(
        reserved_floor=0, queue_size=4, queue_timeout_secs=30, starvation_threshold_secs=20, can_preempt=True
    )
    file = SchedulerFile(classes=Classes(system=one, interactive=one, default=one, bulk=one))
    return make_flow(
        1, permits=lambda loop: Scheduler(file, "system", 9, capacity, loop), attempts=2, **options
    )


def refused(flow: Flow) -> bool:
    """Is there no permit for one more?"""
    client = flow.client(chat())
    full = bool(client.answers) and client.error == (429, "admission_queue_full")
    client.leaves()
    return full


def test_taken_before_the_body_is_read(make_flow: MakeFlow) -> None:
    flow = gated(make_flow)
    client = flow.client(chat()[:-5])
    assert refused(flow)
    client.sends(chat()[-5:])
    flow.worker(0).answers()
    assert client.answer.status == 200
    assert not refused(flow)


def test_not_taken_by_who_shows_no_key(make_flow: MakeFlow) -> None:
    flow = gated(make_flow, api_key="sk")
    first = flow.client(chat(b"authorization: Bearer sk"))
    assert flow.client(chat()).answer.status == 401
    assert flow.client(chat(b"authorization: Bearer sk")).error[0] == 429
    flow.worker(0).answers()
    assert first.answer.status == 200


def test_held_to_the_end_of_a_stream(make_flow: MakeFlow) -> None:
    flow = gated(make_flow)
    flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(b"data: 1\n\n")
    assert refused(flow)
    flow.worker(0).streams(b"data: [DONE]\n\n", end=True)
    assert not refused(flow)


@pytest.mark.parametrize("body", [b"{", b'{"model":"none","messages":[{"role":"user","content":"x"}]}'])
def test_returned_by_who_is_refused_later(make_flow: MakeFlow, body: bytes) -> None:
    flow = gated(make_flow)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n"
    for _ in range(3):
        client = flow.client(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert client.answer.status in (400, 404)
    assert not refused(flow)


def _before_the_body(flow: Flow) -> ClientEnd:
    return flow.client(chat()[:-5])


def _while_connecting(flow: Flow) -> ClientEnd:
    flow.worker(0).connects = "never"
    return flow.client(chat())


def _while_the_worker_thinks(flow: Flow) -> ClientEnd:
    return flow.client(chat())


def _in_a_stream(flow: Flow) -> ClientEnd:
    client = flow.client(chat(stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(b"data: 1\n\n")
    return client


PHASES = [_before_the_body, _while_connecting, _while_the_worker_thinks, _in_a_stream]


@pytest.mark.parametrize("phase", PHASES)
def test_returned_when_the_client_leaves(make_flow: MakeFlow, phase: Callable[[Flow], ClientEnd]) -> None:
    flow = gated(make_flow)
    client = phase(flow)
    assert refused(flow)
    client.leaves()
    assert not refused(flow)
    for _ in range(len(flow.worker(0).waiting)):
        flow.worker(0).accepts()


@pytest.mark.parametrize("how", ["resets", "ends"])
@pytest.mark.parametrize("phase", PHASES[2:])
def test_returned_when_the_worker_dies(
    make_flow: MakeFlow, phase: Callable[[Flow], ClientEnd], how: str
) -> None:
    flow = gated(make_flow)
    phase(flow)
    getattr(flow.worker(0), how)()
    assert not refused(flow)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("end", ["reads", "leaves"])
def test_held_until_the_client_has_its_answer(make_flow: MakeFlow, stream: bool, end: str) -> None:
    flow = gated(make_flow)
    client = flow.client(full_above=0).sends(chat(stream=stream))
    if stream:
        flow.worker(0).sends(SSE + chunked.encode(b"data: [DONE]\n\n"))
    else:
        flow.worker(0).answers()
    assert len(flow.recorded) == 1 and refused(flow)
    if end == "reads":
        while not client.transport.data.endswith(b"0\r\n\r\n" if stream else b"{}"):
            flow.act(client.transport.drain)
        flow.act(client.transport.drain)
    else:
        client.leaves()
    assert not refused(flow)


def test_waiting_for_a_permit(make_flow: MakeFlow) -> None:
    flow = gated(make_flow, 1, 2)
    clients = [flow.client(chat()) for _ in range(4)]
    assert clients[3].error == (429, "admission_queue_full")
    assert clients[3].answer.get("retry-after") == "2"
    clients[1].leaves()
    for number in (0, 2):
        flow.worker(0).answers()
        assert clients[number].answer.status == 200
    assert len(flow.worker(0).requests) == 2


def test_waiting_too_long(make_flow: MakeFlow) -> None:
    flow = gated(make_flow, 1, 1)
    first, second = flow.client(chat()), flow.client(chat())
    flow.pass_time(10)
    assert second.error == (503, "admission_queue_timeout")
    assert second.answer.get("retry-after") == "2"
    flow.worker(0).answers()
    assert first.answer.status == 200


def test_pipelined_requests_wait_for_their_turn(make_flow: MakeFlow) -> None:
    flow = gated(make_flow, 1, 1)
    client = flow.client(chat() + chat())
    flow.worker(0).answers(body=b'{"n":1}')
    flow.worker(0).answers(body=b'{"n":2}')
    assert [one.body for one in client.answers] == [b'{"n":1}', b'{"n":2}']


# ---- giving way


def _with(phase: Callable[[Flow], ClientEnd], flow: Flow) -> ClientEnd:
    """The phase, for a bulk request."""
    sent = flow.client
    flow.client = lambda *pieces, **options: sent(  # type: ignore[method-assign]
        *(piece.replace(b"host: g", b"host: g\r\n" + BULK, 1) for piece in pieces), **options
    )
    try:
        return phase(flow)
    finally:
        flow.client = sent  # type: ignore[method-assign]


@pytest.mark.parametrize("phase", PHASES[:3])
def test_a_lower_request_gives_way(make_flow: MakeFlow, phase: Callable[[Flow], ClientEnd]) -> None:
    flow = scheduled(make_flow)
    low = _with(phase, flow)
    connection = flow.worker(0).connections[-1] if flow.worker(0).connections else None
    flow.worker(0).connects = "at once"
    high = flow.client(chat(SYSTEM))
    assert low.error == (503, "scheduler_preempted")
    assert low.answer.get("retry-after") == "1" and low.answer.get("x-smg-preempted") == "true"
    assert low.answer.get("x-smg-routed-worker-id") is None
    assert connection is None or connection.is_closing
    flow.worker(0).answers()
    assert high.answer.status == 200
    for _ in range(len(flow.worker(0).waiting)):
        flow.worker(0).accepts()


def test_while_it_waits_to_try_again(make_flow: MakeFlow) -> None:
    flow = scheduled(make_flow)
    low = flow.client(chat(BULK))
    flow.worker(0).answers(503)
    assert not low.answers
    high = flow.client(chat(SYSTEM))
    assert low.error == (503, "scheduler_preempted")
    flow.worker(0).answers()
    assert high.answer.status == 200
    flow.pass_time(1)


def test_one_that_has_begun_to_answer_does_not(make_flow: MakeFlow) -> None:
    flow = scheduled(make_flow)
    low = flow.client(chat(BULK, stream=True))
    flow.worker(0).sends(SSE)
    high = flow.client(chat(SYSTEM))
    assert not high.answers
    flow.worker(0).streams(b"data: [DONE]\n\n", end=True)
    assert low.answer.status == 200
    flow.worker(0).answers()
    assert high.answer.status == 200


def test_a_chain_of_those_that_give_way(make_flow: MakeFlow) -> None:
    """The connection of one that gave way brings the next, which displaces another."""
    flow = scheduled(make_flow, capacity=3)
    low = [flow.client(chat(BULK) + chat(SYSTEM)) for _ in range(3)]
    high = flow.client(chat(SYSTEM))
    assert [client.error for client in low] == [(503, "scheduler_preempted")] * 3
    assert flow.permits.snapshot()["waiting"] == 1
    alive = flow.worker(0).connections[3:]
    for connection in (*alive, alive[0]):  # the one that waits gets the first that is free
        flow.act(lambda connection=connection: connection.deliver(ANSWER))  # type: ignore[misc]
    assert high.answer.status == 200
    assert [[one.status for one in client.answers] for client in low] == [[503, 200]] * 3


@pytest.mark.parametrize("data_path", ["fast"])
def test_one_whose_client_leaves_in_the_same_turn(make_flow: MakeFlow) -> None:
    flow = scheduled(make_flow)
    low, high = flow.client(chat(BULK)), flow.client()

    def both() -> None:
        high.transport.deliver(chat(SYSTEM))
        low.transport.reset()

    flow.act(both)
    flow.worker(0).answers()
    assert high.answer.status == 200
    assert flow.recorded[0].client_left and flow.recorded[0].interrupted


@pytest.mark.parametrize("data_path", ["fast"])
def test_one_whose_answer_comes_in_the_same_turn(make_flow: MakeFlow) -> None:
    flow = scheduled(make_flow)
    low, high = flow.client(chat(BULK)), flow.client()
    before = flow.worker(0).connection

    def both() -> None:
        high.transport.deliver(chat(SYSTEM))
        before.deliver(ANSWER)

    flow.act(both)
    assert low.error == (503, "scheduler_preempted")
    flow.worker(0).answers()
    assert high.answer.status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_returned_before_the_next_request_of_the_connection(make_flow: MakeFlow, stream: bool) -> None:
    flow = gated(make_flow)
    client = flow.client(chat(stream=stream) * 3)
    for number in range(1, 4):
        assert flow.permits.in_flight == 1
        if stream:
            flow.worker(0).sends(SSE + b"7\r\ndata: 1\r\n0\r\n\r\n")
        else:
            flow.worker(0).answers()
        assert [one.status for one in client.answers] == [200] * number


@pytest.mark.parametrize("stream", [False, True])
def test_returned_when_the_client_never_takes_a_last_answer(make_flow: MakeFlow, stream: bool) -> None:
    flow = gated(make_flow)
    client = flow.client(chat(b"connection: close", stream=stream), full_above=0)
    if stream:
        flow.worker(0).sends(SSE + b"7\r\ndata: 1\r\n0\r\n\r\n")
    else:
        flow.worker(0).answers()
    assert flow.permits.in_flight == 1
    flow.act(lambda: client.transport.drain(1))
    flow.expire("idle")
    assert flow.permits.in_flight == 1  # it takes some of it
    flow.expire("idle")
    flow.act(client.transport.settle)
    assert flow.permits.in_flight == 0 and client.transport.was_aborted
