"""Connections handed to aiohttp's protocol, message by message, and taken back."""

from __future__ import annotations

import pytest

from tests.fast.stage import Stage, answers_of, echo, get, post, post_chunked, relay_stage
from tests.fast.transports import armed, pass_a_moment, splits

UPGRADE = get(b"/socket", b"connection: upgrade", b"upgrade: websocket")


def test_a_message_is_answered_before_the_next_is_read() -> None:
    stage = Stage(echo, fallback_at_once=False)
    client = stage.client(get(b"/1") + post(b"2") + get(b"/3"))
    [fallback] = stage.fallbacks
    assert fallback.received == get(b"/1") and not stage.exchanges
    fallback.answer()
    assert len(stage.exchanges) == 1 and fallback.received == get(b"/3")
    fallback.answer()
    assert [one.status for one in answers_of(client)] == [201, 200, 201]
    assert armed(stage.limits) == {"idle": 1}
    client.lose()
    assert fallback.lost == [None]


@pytest.mark.parametrize("body", [post(b"hello", path=b"/s"), post_chunked(b"he", b"llo", path=b"/s")])
def test_bodies_are_passed_on_as_they_came(body: bytes) -> None:
    for pieces in splits(body + post(b"2")):
        stage = Stage(echo, fallback_at_once=False)
        client = stage.client(*pieces)
        [fallback] = stage.fallbacks
        assert fallback.received == body and not stage.exchanges
        fallback.answer()
        assert [one.status for one in answers_of(client)] == [201, 200]
        stage.assert_settled()


def test_an_answer_that_comes_before_the_body_waits_for_it() -> None:
    stage = Stage(echo, fallback_at_once=False)
    body = post(b"hello", path=b"/s")
    client = stage.client(body[:-3])
    stage.fallbacks[0].answer()
    stage.send(client, body[-3:] + post(b"2"))
    assert stage.fallbacks[0].received == b"llo"
    assert [one.status for one in answers_of(client)] == [201, 200]


def test_a_body_that_stops_ends_the_connection() -> None:
    for request in (post(b"hello", path=b"/s"), post_chunked(b"hello", b"you", path=b"/s")):
        for end in range(request.index(b"\r\n\r\n") + 4, len(request)):
            stage = Stage(echo, fallback_at_once=False)
            client = stage.client(request[:end])
            assert armed(stage.limits) == {"body_stall": 1}
            stage.timers.fire(stage.limits.body_stall)
            assert client.was_aborted
            client.settle()
            assert len(stage.fallbacks[0].lost) == 1 and not armed(stage.limits)


@pytest.mark.parametrize("answered", [False, True])
def test_a_body_that_is_no_chunked_coding(answered: bool) -> None:
    stage = Stage(echo, fallback_at_once=False)
    begin = post_chunked(b"hello", path=b"/s", end=False)
    client = stage.client(begin)
    [fallback] = stage.fallbacks
    if answered:
        fallback.answer()
    stage.send(client, b"Z\r\n" + post(b"2"))
    assert [one.status for one in answers_of(client)] == [201 if answered else 400]
    assert client.sent_eof and not stage.exchanges and stage.counts.refused == 1
    assert fallback.lost == [None] and b"Z" not in fallback.received
    client.end()
    assert fallback.lost == [None] and not armed(stage.limits)


def test_a_fallback_that_closes() -> None:
    stage = Stage(echo, fallback_at_once=False)
    client = stage.client(get() + post(b"2"))
    stage.fallbacks[0].answer(keep=False)
    assert not stage.exchanges
    client.close()
    client.settle()
    assert len(stage.fallbacks[0].lost) == 1 and not stage.front.open


def test_one_fallback_a_connection() -> None:
    stage = Stage(echo)
    stage.client(get() * 3)
    stage.client(get())
    assert len(stage.fallbacks) == 2


def test_a_tunnel_gets_every_byte_to_the_end() -> None:
    for pieces in splits(UPGRADE + post(b"no request") + b"\0\1\2"):
        stage = Stage(echo, fallback_at_once=False)
        client = stage.client(*pieces)
        assert stage.fallbacks[0].received == b"".join(pieces) and not stage.exchanges
        assert not armed(stage.limits)
        client.end()
        assert len(stage.fallbacks[0].lost) == 1


def test_a_tunnel_that_was_refused_closes() -> None:
    stage = Stage(echo, fallback_at_once=False)
    client = stage.client(UPGRADE)
    stage.fallbacks[0].answer()
    assert client.is_closing and not client.was_aborted


def test_both_sides_are_told_when_the_client_is_slow() -> None:
    stage = Stage(echo)
    client = stage.client(get(b"/" + b"x" * 300) + post(b"2"), full_above=100)
    assert not stage.fallbacks[0].writing and not stage.exchanges
    client.drain()
    assert stage.fallbacks[0].writing and len(stage.exchanges) == 1


def test_a_slow_client_of_a_stream_does_not_hold_the_fallback_for_ever() -> None:
    stage = relay_stage()
    client = stage.client(get(), post(b"1"), full_above=400)
    stage.worker.deliver(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + b"data: x\n\n" * 100)
    stage.turn()
    assert not stage.fallbacks[0].writing and not stage.worker.is_reading
    client.drain()
    assert stage.fallbacks[0].writing and stage.worker.is_reading


def test_a_last_answer_that_is_not_taken_has_an_end() -> None:
    stage = Stage(echo, fallback_at_once=False)
    client = stage.client(get(b"/" + b"x" * 300, b"connection: close"), full_above=0)
    stage.fallbacks[0].answer(keep=False)
    client.close()  # aiohttp does
    client.drain(1)
    pass_a_moment()
    stage.timers.fire(stage.limits.idle)
    assert not client.was_aborted  # it takes some of it
    pass_a_moment()
    stage.timers.fire(stage.limits.idle)
    assert client.was_aborted
    client.settle()
    assert len(stage.fallbacks[0].lost) == 1 and not armed(stage.limits)


def test_draining_lets_it_finish() -> None:
    stage = Stage(echo, fallback_at_once=False)
    client = stage.client(get())
    stage.front.close_idle()
    assert stage.front.busy == 1 and not client.is_closing
    stage.fallbacks[0].answer()
    assert client.is_closing
