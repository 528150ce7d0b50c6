"""Requests that wait for a prefill worker: bounded, in order, and whoever leaves passes his turn on."""

from __future__ import annotations

from collections.abc import Callable

from tests.flow.conversation import ClientEnd, chat
from tests.flow.pairs import QUEUE_TIMEOUT_S, MakePair, PairFlow, loads


def finish(pair: PairFlow) -> None:
    pair.decode.answers()
    pair.prefill.answers()


def test_without_a_queue_nobody_waits(make_pair: MakePair) -> None:
    pair = make_pair(limit=1)
    pair.client(chat())
    assert pair.client(chat()).error == (429, "pd_prefill_queue_full")
    finish(pair)


def test_the_next_begins_when_prefill_is_done(make_pair: MakePair) -> None:
    pair = make_pair(limit=1, queue=2)
    first, second, third = pair.client(chat(stream=True)), pair.client(chat()), pair.client(chat())
    assert pair.client(chat()).error == (429, "pd_prefill_queue_full")
    pair.prefill.answers()
    assert loads(pair) == [1, 2] and len(pair.prefill.requests) == 2
    pair.prefill.answers()
    assert len(pair.prefill.requests) == 3
    pair.prefill.answers()
    for connection in pair.decode.connections:
        pair.act(lambda c=connection: c.deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"))  # type: ignore[misc]
    assert [one.answer.status for one in (first, second, third)] == [200] * 3


def test_waiting_has_an_end(make_pair: MakePair) -> None:
    pair = make_pair(limit=1, queue=1)
    pair.client(chat())
    late = pair.client(chat())
    pair.pass_time(QUEUE_TIMEOUT_S + 1)
    assert late.error == (429, "pd_prefill_queue_timeout")
    finish(pair)


def test_who_leaves_the_queue_makes_place(make_pair: MakePair, leave: Callable[[ClientEnd], None]) -> None:
    pair = make_pair(limit=1, queue=1)
    first = pair.client(chat())
    second = pair.client(chat())
    leave(second)
    if first.transport.is_closing or first.transport.is_lost:  # all were cut
        assert loads(pair) == [0, 0]
        return
    third = pair.client(chat())
    finish(pair)
    finish(pair)
    assert [one.answer.status for one in (first, third)] == [200, 200]


def test_who_leaves_when_it_is_his_turn_passes_it_on(make_pair: MakePair) -> None:
    pair = make_pair(limit=1, queue=2)
    first, second, third = (pair.client(chat()) for _ in range(3))
    first.leaves()
    assert loads(pair) == [1, 1]
    second.leaves()
    assert loads(pair) == [1, 1]
    finish(pair)
    assert third.answer.status == 200
