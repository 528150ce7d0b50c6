"""Worker connections on the other way: bodies sent and piped, clients that leave, and the pool."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from tests.fast.reference import chunked
from tests.fast.stage import (
    CODED,
    FRAMES,
    JSON,
    LIMIT,
    SSE,
    STREAM,
    Stage,
    answers_of,
    play,
    post,
    relay_stage,
    sized,
)
from tests.fast.transports import FakeTransport, armed, splits

# ---- the body on its way to a worker


def test_a_small_request_is_one_write() -> None:
    stage, _ = play(())
    assert len(stage.worker.writes) == 1 and stage.worker.data.endswith(b"\r\n\r\nhello")


def source_stage(pieces: Iterator[bytes], **worker: int) -> Stage:
    async def serve(x: Exchange) -> None:
        await x.receive_body(LIMIT)
        await x.send(stage.connection(**worker), b"POST /w HTTP/1.1\r\n\r\n", pieces)
        x.answer(200, b"OK", b"", b"%d" % x.outcome)

    stage = Stage(serve)
    return stage


def test_a_body_from_a_source_is_read_as_fast_as_it_is_taken() -> None:
    taken: list[int] = []

    def source() -> Iterator[bytes]:
        for number in range(10):
            taken.append(number)
            yield b"%d" % number * 100

    stage = source_stage(source(), full_above=150)
    client = stage.client(post())
    assert taken == [0, 1]
    while len(taken) < 10:
        before = len(taken)
        stage.worker.drain()
        assert before < len(taken) <= before + 2
    stage.worker.drain()
    assert stage.worker.data.partition(b"\r\n\r\n")[2] == b"".join(b"%d" % n * 100 for n in range(10))
    stage.worker.deliver(JSON + sized(b"{}"))
    assert answers_of(client)[0].body == b"%d" % fast.ANSWERED
    assert len(stage.pool.idle) == 1
    stage.assert_settled()


def test_an_answer_before_the_source_has_ended_ends_the_connection() -> None:
    stage = source_stage(iter([b"x" * 100] * 10), full_above=150)
    stage.client(post())
    stage.worker.deliver(JSON + sized(b"{}"))
    assert stage.x.outcome == fast.ANSWERED
    assert stage.worker.is_closing and not stage.pool.idle
    stage.worker.drain()
    stage.assert_settled()


def failing(error: type[Exception], after: int) -> Iterator[bytes]:
    yield from [b"x" * 100] * after
    raise error


def test_a_source_that_fails_later() -> None:
    stage = source_stage(failing(OSError, 3), full_above=150)
    client = stage.client(post())
    stage.worker.drain()
    assert answers_of(client)[0].body == b"%d" % fast.DIED
    stage.assert_settled()


def test_a_source_that_fails_at_once_leaves_nothing_behind() -> None:
    stage = source_stage(failing(RuntimeError, 1))
    client = stage.client(post())
    assert client.was_aborted and stage.worker.was_aborted
    assert [type(error) for error in stage.ended] == [RuntimeError]
    assert len(stage.timers.failures) == 1
    client.settle()
    assert not armed(stage.limits)


# ---- bodies that are piped


@pytest.mark.parametrize("chunks", [False, True])
def test_a_piped_body_at_every_split(chunks: bool) -> None:
    head = b"POST /x HTTP/1.1\r\nhost: g\r\n"
    body = b"hello you"
    request = head + (CODED + chunked.encode(b"hel", b"lo you") if chunks else sized(body))
    for pieces in splits(request + post(b"")):
        stage = relay_stage(piped=True)
        client = stage.client(*pieces)
        sent = stage.worker.data.partition(b"\r\n\r\n")[2]
        assert (chunked.decode(sent) == (body, True, b"")) if chunks else sent == body
        assert stage.x.received == fast.BODY_COMPLETE and stage.x.body is None
        assert len(stage.exchanges) == 1
        stage.worker.deliver(JSON + sized(b"{}"))
        stage.turn()
        assert answers_of(client)[0].body == b"{}"
        assert len(stage.exchanges) == 2
        client.lose()
        stage.assert_settled()


def test_a_slow_worker_slows_the_body() -> None:
    stage = relay_stage(piped=True, worker={"full_above": 1000})
    body = bytes(range(256)) * 100
    request = post(body)
    client = stage.client(*[request[at : at + 500] for at in range(0, len(request), 500)])
    assert not client.is_reading and client.is_holding
    assert armed(stage.limits) == {"request": 1, "first_byte": 1}
    while stage.x.received != fast.BODY_COMPLETE:
        assert stage.worker.get_write_buffer_size() < 2000
        stage.worker.drain()
        client.release()
    assert stage.worker.data.endswith(body)
    assert client.is_reading, "or it would not be seen that the client leaves"
    client.lose()
    assert stage.worker.was_aborted
    stage.assert_settled()


def test_a_worker_may_be_silent_while_the_body_comes() -> None:
    stage = relay_stage(piped=True, between_s=1e-9)
    client = stage.client(post(b"hello")[:-1])
    assert stage.timers.fire() == 1
    assert stage.x.outcome == fast.PENDING
    stage.send(client, b"o")
    assert stage.timers.fire() == 1
    assert stage.x.outcome == fast.TIMED_OUT
    stage.assert_settled()


def test_the_last_piece_of_a_body_fills_the_worker() -> None:
    stage = relay_stage(piped=True, worker={"full_above": 100})
    client = stage.client(post(b"x" * 200))
    assert stage.x.received == fast.BODY_COMPLETE and client.is_reading
    stage.worker.drain()
    stage.worker.deliver(JSON + sized(b"{}"))
    stage.turn()
    assert answers_of(client)[0].body == b"{}" and len(stage.pool.idle) == 1


@pytest.mark.parametrize(
    ("which", "received"),
    [("body_stall", fast.BODY_STALLED), ("end", fast.BODY_ABORTED)],
)
def test_a_piped_body_that_stops(which: str, received: int) -> None:
    request = post(b"hello")
    for end in range(request.index(b"\r\n\r\n") + 4, len(request)):
        stage = relay_stage(piped=True)
        client = stage.client(request[:end])
        client.end() if which == "end" else stage.timers.fire(getattr(stage.limits, which))
        assert (stage.x.outcome, stage.x.received) == (fast.BODY_FAILED, received)
        assert answers_of(client)[0].closes and stage.worker.was_aborted
        stage.assert_settled()


def test_a_piped_body_that_stops_after_the_answer_began() -> None:
    stage = relay_stage(piped=True)
    client = stage.client(post(b"hello")[:-2])
    stage.worker.deliver(SSE + CODED + chunked.encode(b"data: x\n\n", end=False))
    stage.turn()
    stage.timers.fire(stage.limits.body_stall)
    assert client.was_aborted and stage.worker.was_aborted
    stage.assert_settled()


def test_a_piped_body_above_the_limit() -> None:
    head = b"POST /x HTTP/1.1\r\nhost: g\r\n" + CODED
    for request in (
        b"POST /x HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % (LIMIT + 1),
        head + chunked.encode(*[b"x" * 50_000] * 5),
    ):
        stage = relay_stage(piped=True)
        client = stage.client(*[request[at : at + 60_000] for at in range(0, len(request), 60_000)])
        assert [one.status for one in answers_of(client)] == [413]
        assert stage.worker.was_aborted and client.sent_eof
        stage.assert_settled()


def test_a_malformed_piped_body() -> None:
    stage = relay_stage(piped=True)
    client = stage.client(b"POST /x HTTP/1.1\r\nhost: g\r\n" + CODED + b"5\r\nhello\r\nZ")
    assert [one.status for one in answers_of(client)] == [400]
    assert stage.worker.was_aborted
    stage.assert_settled()


@pytest.mark.parametrize(
    "answer", [JSON + sized(b"{}"), SSE + CODED + chunked.encode(*FRAMES)], ids=["plain", "events"]
)
def test_a_worker_that_answers_before_the_body_is_there(answer: bytes) -> None:
    stage = relay_stage(piped=True)
    client = stage.client(post(b"hello")[:-2])
    stage.worker.deliver(answer)
    stage.turn()
    [only] = answers_of(client)
    assert only.is_whole and only.closes and client.sent_eof
    assert stage.worker.is_closing and not stage.pool.idle
    stage.send(client, b"lo" + post(b"2"))
    assert len(stage.exchanges) == 1
    stage.assert_settled()


def test_a_worker_that_dies_while_the_body_comes() -> None:
    stage = relay_stage(piped=True)
    client = stage.client(post(b"hello")[:-2])
    stage.worker.reset()
    assert [one.status for one in answers_of(client)] == [502]
    stage.send(client, b"lo")
    stage.assert_settled()


def test_a_client_asks_before_it_pipes() -> None:
    stage = relay_stage(piped=True)
    client = stage.client(post(b"hello", b"expect: 100-continue")[:-5])
    assert client.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    stage.send(client, b"hello")
    assert stage.worker.data.endswith(b"hello")


# ---- a client that leaves


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 2", SSE + CODED, SSE + CODED + b"9\r\ndata: x\n\n\r\n9\r\nda"]
)
@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_client_that_leaves_frees_its_worker(data: bytes, how: str) -> None:
    stage, client = play((data,) if data else ())
    getattr(client, how)()
    assert stage.worker.was_aborted and not stage.pool.idle
    assert stage.x.client_left and stage.counts.client_left == 1
    stage.worker.deliver(b"late")
    stage.worker.settle()
    stage.turn()
    assert stage.counts.upstreams == 0 and not armed(stage.limits)
    stage.assert_settled()


def test_cutting_a_stream_ends_it() -> None:
    stage, client = play((SSE + CODED + b"9\r\ndata: x\n\n\r\n",))
    stage.front.abort_all()
    stage.worker.deliver(b"9\r\ndata: y\n\n\r\n")
    stage.turn()
    assert stage.worker.was_aborted
    client.settle()
    stage.assert_settled()


# ---- the pool


def test_the_last_used_connection_is_taken_first() -> None:
    stage = relay_stage(stream=False)
    clients = [stage.client(post(b"%d" % n)) for n in range(3)]
    for worker in stage.workers:
        worker.deliver(JSON + sized(b"{}"))
    assert len(stage.pool.idle) == 3 and stage.counts.connects == stage.counts.upstreams == 3
    stage.send(clients[0], post(b"again"))
    assert stage.workers[-1].data.endswith(b"again") and len(stage.workers) == 3
    assert armed(stage.limits)["pool_idle"] == 2


def test_idle_connections_do_not_stay() -> None:
    stage, _ = play((JSON + sized(b"{}"),), stream=False)
    assert stage.timers.fire(stage.limits.pool_idle) == 1
    assert stage.worker.is_closing and not stage.pool.idle
    stage.worker.settle()
    assert stage.counts.upstreams == 0


@pytest.mark.parametrize("how", ["end", "reset", "speak"])
def test_an_idle_connection_that_ends_or_speaks(how: str) -> None:
    stage, client = play((JSON + sized(b"{}"),), stream=False)
    stage.worker.deliver(b"HTTP/1.1 408 Late\r\n\r\n") if how == "speak" else getattr(stage.worker, how)()
    assert not stage.pool.idle and stage.worker.is_closing | stage.worker.is_lost
    assert stage.limits.pool_idle.armed == 0
    stage.send(client, post(b"again"))
    assert len(stage.workers) == 2


def test_a_reused_connection_that_dies_unheard_is_told_apart() -> None:
    stage, client = play((JSON + sized(b"{}"),), stream=False)
    egress = stage.worker.protocol
    stage.send(client, post(b"again"))
    stage.worker.reset()
    assert stage.x.outcome == fast.DIED and egress.reused and not egress.heard
    fresh, _ = play((b"H",))
    fresh.worker.reset()
    assert fresh.x.outcome == fast.DIED and fresh.worker.protocol.heard and not fresh.worker.protocol.reused


@pytest.mark.parametrize("stream", [True, False])
def test_a_pool_that_closes_lets_its_answers_finish(stream: bool) -> None:
    stage, client = play((SSE + CODED + chunked.encode(*FRAMES[:2], end=False),), stream=stream)
    stage.pool.close()
    assert not stage.worker.is_closing
    stage.worker.deliver(chunked.encode(*FRAMES[2:]))
    stage.turn()
    [only] = answers_of(client)
    assert (only.body, only.is_whole) == (STREAM, True)
    assert stage.worker.is_closing and not stage.pool.idle
    stage.assert_settled()


def test_a_connection_nobody_needed() -> None:
    stage = relay_stage(stream=False)
    for closed in (False, True):
        if closed:
            stage.pool.close()
        egress = stage.pool.make()
        worker = FakeTransport().connect(egress)
        stage.pool.put_back(egress)
        assert (worker.is_closing, len(stage.pool.idle)) == (closed, 0 if closed else 1)
    dead = stage.pool.make()
    FakeTransport().connect(dead).lose()
    stage.pool.put_back(dead)
    assert not stage.pool.idle
