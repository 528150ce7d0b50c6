"""Client connections: framing at every split, keep-alive, pipelining, bodies, limits, and how they end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from tests.fast.stage import (
    LIMIT,
    Stage,
    answer,
    answers_of,
    echo,
    fail_body,
    get,
    post,
    post_chunked,
    relay_stage,
)
from tests.fast.transports import FakeTransport, armed, splits

EXPECTING = b"expect: 100-continue"
CLOSE = b"connection: close"

# Bytes of a client, and the (status, body) of what it is answered; `CLOSED` ends with a closed connection.
KEPT = {
    "one": (post(b"hello"), [(200, b"hello")]),
    "no body": (post(b""), [(200, b"")]),
    "no length": (b"POST /x HTTP/1.1\r\nhost: g\r\n\r\n", [(200, b"")]),
    "chunked": (post_chunked(b"he", b"llo"), [(200, b"hello")]),
    "empty chunked": (post_chunked(), [(200, b"")]),
    "two": (post(b"1") + post(b"22"), [(200, b"1"), (200, b"22")]),
    "chunked then length": (post_chunked(b"a", b"b") + post(b"2"), [(200, b"ab"), (200, b"2")]),
    "a line between": (b"\r\n" + post(b"1") + b"\r\n\r\n" + post(b"2"), [(200, b"1"), (200, b"2")]),
    "slow": (get(), [(201, get())]),
    "fast slow fast": (post(b"1") + get() + post(b"2"), [(200, b"1"), (201, get()), (200, b"2")]),
    "slow with a body": (post(b"ab", path=b"/s") + post(b"c"), [(201, post(b"ab", path=b"/s")), (200, b"c")]),
    "slow chunked": (
        post_chunked(b"ab", b"c", path=b"/s") + post(b"c"),
        [(201, post_chunked(b"ab", b"c", path=b"/s")), (200, b"c")],
    ),
    "expecting": (post(b"hello", EXPECTING) + post(b"2"), [(200, b"hello"), (200, b"2")]),
    "an upgrade is ignored": (post(b"1", b"upgrade: h2c") + post(b"2"), [(200, b"1"), (200, b"2")]),
}
CLOSED = {
    "close": (post(b"1", CLOSE) + post(b"2"), [(200, b"1")]),
    "HTTP/1.0": (post(b"1", version=b"1.0"), [(200, b"1")]),
    "HTTP/1.0 with keep-alive": (
        post(b"1", b"connection: keep-alive", version=b"1.0") + post(b"2"),
        [(200, b"1")],
    ),
    "bad first": (b"POST /x\r\n\r\n" + post(b"2"), [(400, b"refused")]),
    "bad second": (post(b"1") + b"POST /x HTTP/1.1\r\n\r\n" + post(b"3"), [(200, b"1"), (400, b"refused")]),
    "line feeds only": (b"POST /x HTTP/1.1\nhost: g\n\n", [(400, b"refused")]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01", [(400, b"refused")]),
    "both lengths": (
        b"POST /x HTTP/1.1\r\nhost: g\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        [(400, b"refused")],
    ),
    "bad chunk": (
        post_chunked(b"ab", end=False) + b"Z\r\n" + post(b"2"),
        [(400, b"body %d" % fast.BODY_MALFORMED)],
    ),
    "too large": (post(b"x" * 30) + b"y", [(413, b"body %d" % fast.BODY_TOO_LARGE)]),
    "too large chunked": (
        post_chunked(b"x" * 9, b"y" * 3) + post(b""),
        [(413, b"body %d" % fast.BODY_TOO_LARGE)],
    ),
    "CONNECT": (b"CONNECT /a HTTP/1.1\r\nhost: g\r\n\r\n", [(501, b"refused")]),
    "version": (b"POST /x HTTP/2.0\r\nhost: g\r\n\r\n", [(505, b"refused")]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []),
}


async def small_echo(x: Exchange) -> None:
    await x.receive_body(10)
    answer(x, x.body) if x.received == fast.BODY_COMPLETE else fail_body(x)


def spoken(client: FakeTransport) -> list[tuple[int, bytes]]:
    return [(one.status, one.body) for one in answers_of(client) if one.status != 100]


def play(pieces: tuple[bytes, ...]) -> tuple[Stage, FakeTransport]:
    stage = Stage(small_echo)
    return stage, stage.client(*pieces)


@pytest.mark.parametrize("name", KEPT)
def test_messages_at_every_split(name: str) -> None:
    data, wanted = KEPT[name]
    for pieces in splits(data):
        stage, client = play(pieces)
        assert spoken(client) == wanted, pieces
        assert not client.is_closing and client.is_reading
        assert not any(one.closes for one in answers_of(client))
        stage.assert_settled()
        assert armed(stage.limits) == {"idle": 1}


@pytest.mark.parametrize("name", CLOSED)
def test_messages_that_close_the_connection_at_every_split(name: str) -> None:
    data, wanted = CLOSED[name]
    for pieces in splits(data):
        stage, client = play(pieces)
        assert spoken(client) == wanted, pieces
        assert client.is_closing or client.sent_eof
        assert all(one.closes for one in answers_of(client)[-1:])
        stage.assert_settled()
        client.end()
        client.settle()
        assert not armed(stage.limits) and not stage.front.open


@settings(max_examples=150, derandomize=True)
@given(st.lists(st.sampled_from(sorted(KEPT)), max_size=5), st.sampled_from(sorted(CLOSED)), st.data())
def test_any_conversation_at_any_split(names: list[str], last: str, data: Any) -> None:
    text = b"".join(KEPT[name][0] for name in names) + CLOSED[last][0]
    wanted = [one for name in names for one in KEPT[name][1]] + CLOSED[last][1]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    pieces = tuple(text[a:b] for a, b in pairwise(edges) if a < b)
    stage, client = play(pieces)
    assert spoken(client) == wanted
    stage.assert_settled()


@settings(max_examples=300, derandomize=True)
@given(st.sampled_from(sorted(KEPT)), st.integers(0, 400), st.integers(0, 255), st.integers(1, 60))
def test_a_changed_byte_never_upsets_it(name: str, at: int, byte: int, size: int) -> None:
    changed = bytearray(KEPT[name][0])
    changed[at % len(changed)] = byte
    text = bytes(changed)
    whole, parts = play((text,)), play(tuple(text[i : i + size] for i in range(0, len(text), size)))
    assert spoken(whole[1]) == spoken(parts[1])
    for stage, client in (whole, parts):
        assert not stage.timers.failures
        client.lose()
        assert not armed(stage.limits) and not stage.front.open
        assert len(stage.ended) == len(stage.exchanges)


# ---- expectations


def test_the_body_is_asked_for_when_it_is_wanted() -> None:
    stage = Stage(echo)
    head, body = post(b"hello", EXPECTING)[:-5], b"hello"
    client = stage.client(head)
    assert client.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    stage.send(client, body)
    assert spoken(client) == [(200, b"hello")]


def test_a_refused_body_is_not_asked_for() -> None:
    stage = Stage(small_echo)
    client = stage.client(post(b"x" * 30, EXPECTING)[:-30])
    assert [one.status for one in answers_of(client)] == [413]
    assert client.sent_eof


def test_old_clients_are_not_asked() -> None:
    stage = Stage(echo)
    client = stage.client(post(b"hello", EXPECTING, version=b"1.0")[:-5])
    assert client.data == b""


# ---- answers that do not wait for the body


async def deny(x: Exchange) -> None:
    x.answer(401, b"No", b"", b"")


def test_an_answer_before_the_body_closes_gently() -> None:
    stage = Stage(deny)
    client = stage.client(post(b"x" * 30)[:-10])
    [only] = answers_of(client)
    assert (only.status, only.closes) == (401, True)
    assert client.sent_eof and not client.is_closing
    assert armed(stage.limits) == {"linger": 1}
    stage.send(client, b"y" * 100_000, post(b"z"))
    assert len(stage.exchanges) == 1 and client.is_reading
    client.end()
    assert client.is_lost and not armed(stage.limits)


def test_a_client_that_does_not_go_is_cut() -> None:
    stage = Stage(deny)
    client = stage.client(post(b"x" * 30)[:-10])
    assert stage.timers.fire(stage.limits.linger) == 1
    assert client.was_aborted


def test_without_half_closing_it_closes_at_once() -> None:
    stage = Stage(deny)
    client = stage.client(post(b"x" * 30)[:-10], half_closes=False)
    assert client.is_closing and not client.was_aborted


def test_an_answer_without_reading_an_empty_body_keeps_the_connection() -> None:
    stage = Stage(deny)
    client = stage.client(post(b""), post(b""))
    assert [one.closes for one in answers_of(client)] == [False, False]


# ---- an exchange that is not ready for its body at once


class Gate:
    """Holds an exchange back until it is opened, as a queue for admission would."""

    def __init__(self, then: Any = echo) -> None:
        self._then = then
        self._waiting: list[Any] = []
        self.callbacks: list[Any] = []

    async def __call__(self, x: Exchange) -> None:
        await self
        await self._then(x)

    # A future as far as the driver of an exchange can see.
    _asyncio_future_blocking = False

    def __await__(self) -> Any:
        self._asyncio_future_blocking = True
        yield self

    def add_done_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def cancel(self) -> bool:
        return True

    def open(self) -> None:
        callback = self.callbacks.pop(0)
        callback(self)


@pytest.mark.parametrize("body", [post(b"hello"), post_chunked(b"hel", b"lo")], ids=["length", "chunked"])
def test_a_body_that_waits_for_its_exchange(body: bytes) -> None:
    gate = Gate()
    stage = Stage(gate)
    client = stage.client(body + post(b"2"))
    assert client.data == b""
    gate.open()
    assert spoken(client) == [(200, b"hello")]
    stage.turn()
    gate.open()
    assert spoken(client) == [(200, b"hello"), (200, b"2")]
    assert not client.is_closing
    stage.send(client, post(b"3"))
    gate.open()
    assert spoken(client)[2:] == [(200, b"3")]
    stage.assert_settled()


def test_a_body_that_waits_is_the_last_thing_received() -> None:
    gate = Gate()
    stage = Stage(gate)
    client = stage.client(post(b"hello"))
    gate.open()
    assert spoken(client) == [(200, b"hello")] and not client.is_closing
    stage.front.close_idle()
    assert client.is_closing


def test_what_comes_ahead_is_bounded() -> None:
    gate = Gate()
    stage = Stage(gate)
    body = bytes(range(256)) * 600
    client = stage.client(*[post(body)[i : i + 20_000] for i in range(0, len(post(body)), 20_000)])
    assert not client.is_reading and client.is_holding
    gate.open()
    client.release()
    assert spoken(client) == [(200, body)]
    assert client.is_reading
    stage.assert_settled()


# ---- pipelining


def test_the_next_request_waits_for_the_answer() -> None:
    stage = relay_stage(stream=False)
    client = stage.client(post(b"1") + post(b"2") + get())
    assert len(stage.exchanges) == 1 and not stage.fallbacks
    assert stage.front.busy == 1
    for number in (b"1", b"2"):
        assert stage.worker.take().endswith(number)
        stage.worker.deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n" + number)
        stage.turn()
    assert spoken(client) == [(200, b"1"), (200, b"2"), (201, get())]
    assert len(stage.workers) == 1 and len(stage.pool.idle) == 1
    assert stage.front.busy == 0
    stage.assert_settled()


def test_many_requests_at_once_do_not_nest() -> None:
    stage = Stage(echo)
    client = stage.client(post(b"1") * 3000)
    assert len(stage.exchanges) == 3000
    assert len(answers_of(client)) == 3000


def test_requests_ahead_are_bounded_while_one_is_answered() -> None:
    stage = relay_stage(stream=False)
    client = stage.client(post(b"1"))
    stage.send(client, *[post(b"x" * 1000)] * 100)
    assert not client.is_reading
    for _ in range(101):
        stage.worker.deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        stage.turn()
        client.release()
    assert len(answers_of(client)) == 101 and client.is_reading
    stage.assert_settled()


def test_a_client_that_does_not_read_gets_no_further_answer() -> None:
    stage = Stage(echo)
    client = stage.client(post(b"x" * 500) * 3, full_above=400)
    assert len(stage.exchanges) == 1
    stage.send(client, *[post(b"y" * 1000)] * 100)
    assert not client.is_reading and len(stage.exchanges) == 1
    while client.is_holding or len(stage.exchanges) < 103:
        client.drain()
        client.release()
    assert len(answers_of(client)) == 103
    client.drain()
    stage.assert_settled()


def test_a_slow_reader_is_not_idle_until_it_stops() -> None:
    stage = Stage(echo)
    client = stage.client(post(b"x" * 1000), full_above=100)
    for _ in range(3):
        client.drain(100)
        assert stage.timers.fire(stage.limits.idle) == 1
        assert not client.is_closing
    stage.timers.fire(stage.limits.idle)
    assert client.was_aborted


# ---- large bodies are received where they are sent from


LARGE = bytes(range(256)) * 500


@pytest.mark.parametrize("first", [0, 1, 5000, 62_000])
@pytest.mark.parametrize("size", [1 << 20, 65_536, 9973])
def test_large_bodies(first: int, size: int) -> None:
    stage = Stage(echo)
    request = post(LARGE)
    cut = len(request) - len(LARGE) + first
    client = stage.client(request[:cut])
    assert client.protocol not in stage.front.open, "it is received in place"
    rest = request[cut:]
    stage.send(client, *[rest[at : at + size] for at in range(0, len(rest), size)])
    assert client.protocol in stage.front.open
    stage.send(client, post(b"2"))
    assert spoken(client) == [(200, LARGE), (200, b"2")]
    stage.assert_settled()


def test_a_large_body_with_the_next_request_behind_it() -> None:
    stage = Stage(echo)
    request = post(LARGE)
    client = stage.client(request[:200], request[200:] + post(b"2") + post(b"3"))
    assert spoken(client) == [(200, LARGE), (200, b"2"), (200, b"3")]


def test_a_large_body_that_ends_early() -> None:
    stage = Stage(echo)
    client = stage.client(post(LARGE)[:70_000])
    client.end()
    assert spoken(client) == [(400, b"body %d" % fast.BODY_ABORTED)]
    assert client.protocol in stage.front.open
    stage.assert_settled()


@pytest.mark.parametrize("which", ["body_stall", "request"])
def test_a_large_body_that_stops(which: str) -> None:
    stage = Stage(echo)
    client = stage.client(post(LARGE)[:300], post(LARGE)[300:5000])
    assert stage.timers.fire(getattr(stage.limits, which)) == 1
    assert [status for status, _ in spoken(client)] == [408]
    assert client.protocol in stage.front.open and client.sent_eof
    stage.send(client, LARGE)
    client.end()
    stage.assert_settled()


def test_a_client_leaves_within_a_large_body() -> None:
    stage = Stage(echo)
    client = stage.client(post(LARGE)[:70_000])
    client.reset()
    assert stage.x.client_left and stage.counts.client_left == 1
    stage.assert_settled()


def test_a_large_chunked_body() -> None:
    stage = Stage(echo)
    request = post_chunked(*[LARGE[at : at + 7000] for at in range(0, len(LARGE), 7000)])
    client = stage.client(*[request[at : at + 5000] for at in range(0, len(request), 5000)])
    assert spoken(client) == [(200, LARGE)]


# ---- bodies that do not come


@pytest.mark.parametrize(
    "request_", [post(b"hello"), post_chunked(b"hello", b"you")], ids=["length", "chunked"]
)
@pytest.mark.parametrize(
    ("which", "how"),
    [("body_stall", fast.BODY_STALLED), ("request", fast.BODY_LATE), ("end", fast.BODY_ABORTED)],
)
def test_a_body_that_stops(request_: bytes, which: str, how: int) -> None:
    for end in range(request_.index(b"\r\n\r\n") + 4, len(request_)):
        stage = Stage(echo)
        client = stage.client(request_[:end])
        client.end() if which == "end" else stage.timers.fire(getattr(stage.limits, which))
        assert stage.x.received == how
        [only] = answers_of(client)
        assert only.closes and only.body == b"body %d" % how
        stage.assert_settled()


def test_a_client_that_leaves_within_the_body() -> None:
    for end in range(len(post(b"hello"))):
        stage = Stage(echo)
        client = stage.client(post(b"hello")[:end])
        client.lose()
        assert all(x.client_left for x in stage.exchanges)
        assert stage.counts.client_left == len(stage.exchanges)
        assert not armed(stage.limits)
        stage.assert_settled()


# ---- bodies by pieces


def taking(pieces: list[bytes], refused: bytes) -> Any:
    async def serve(x: Exchange) -> None:
        def sink(piece: bytes) -> None:
            pieces.append(piece)
            if refused in b"".join(pieces):
                raise ValueError

        await x.receive_into(sink, LIMIT)
        x.answer(200, b"OK", b"", b"%d" % x.received)

    return serve


@pytest.mark.parametrize(
    "request_", [post(b"hello you"), post_chunked(b"hello", b" you")], ids=["length", "chunked"]
)
def test_a_body_given_by_pieces(request_: bytes) -> None:
    for cut in splits(request_):
        pieces: list[bytes] = []
        stage = Stage(taking(pieces, b"-"))
        client = stage.client(*cut)
        assert b"".join(pieces) == b"hello you" and stage.x.body in (None, b"")
        assert spoken(client) == [(200, b"%d" % fast.BODY_COMPLETE)]
        stage.assert_settled()


@pytest.mark.parametrize(
    "request_", [post(b"hello you"), post_chunked(b"hello", b" you")], ids=["length", "chunked"]
)
@pytest.mark.parametrize("refused", [b"h", b"lo", b"u"])
def test_pieces_that_are_refused(request_: bytes, refused: bytes) -> None:
    for cut in splits(request_ + post(b"2")):
        stage = Stage(taking([], refused))
        client = stage.client(*cut)
        assert spoken(client) == [(200, b"%d" % fast.BODY_MALFORMED)]
        assert client.is_closing or client.sent_eof
        assert len(stage.exchanges) == 1
        stage.assert_settled()


# ---- deadlines between messages


def test_heads_have_a_deadline() -> None:
    stage = Stage(echo)
    silent, slow = stage.client(), stage.client(post(b"x")[:10])
    assert armed(stage.limits) == {"header_read": 2}
    stage.timers.fire(stage.limits.header_read)
    assert silent.was_aborted and slow.was_aborted
    assert silent.data == slow.data == b""


def test_idle_connections_have_a_deadline_until_a_head_begins() -> None:
    stage = Stage(echo)
    client = stage.client(post(b"x"))
    assert armed(stage.limits) == {"idle": 1}
    stage.send(client, b"P")
    assert armed(stage.limits) == {"header_read": 1}
    stage.send(client, b"OST /x HTTP/1.1\r\n")
    stage.timers.fire(stage.limits.header_read)
    assert client.was_aborted and not armed(stage.limits)


# ---- limits of heads


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"POST /" + b"x" * 70_000, 414),
        (b"POST /x HTTP/1.1\r\nhost: g\r\nx: " + b"y" * 70_000, 431),
        (b"POST /x HTTP/1.1\r\nhost: g\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"POST /x HTTP/1.1\r\nhost: g\r\n" + b"x: y\r\n" * 100 + b"\r\n", 431),
    ],
    ids=["target", "endless", "whole", "fields"],
)
def test_heads_are_bounded(text: bytes, status: int) -> None:
    for size in (1 << 20, 8000):
        stage = Stage(echo)
        client = stage.client(*[text[at : at + size] for at in range(0, len(text), size)])
        assert spoken(client) == [(status, b"refused")]
        assert stage.counts.refused == 1 and not stage.exchanges


def test_a_head_of_the_largest_size() -> None:
    stage = Stage(echo)
    begin = b"POST /x HTTP/1.1\r\nhost: g\r\nx: "
    client = stage.client(begin + b"y" * (65_536 - len(begin) - 4) + b"\r\n\r\n")
    assert spoken(client) == [(200, b"")]


# ---- draining and cutting


def test_draining() -> None:
    stage = relay_stage(stream=False)
    fresh, idle, head, busy = stage.client(), stage.client(), stage.client(b"POS"), stage.client(post(b"1"))
    stage.send(idle, post(b"1"))
    stage.workers[-1].deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    stage.front.close_idle()
    assert fresh.is_closing and idle.is_closing
    assert not head.is_closing and not busy.is_closing
    stage.send(head, b"T" + post(b"2")[4:])
    for worker in stage.workers:
        worker.deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert head.is_closing and busy.is_closing
    assert answers_of(head)[0].closes
    stage.assert_settled()


@pytest.mark.parametrize("sent", [0, 5, len(post(b"h")), len(post(b"hello"))])
def test_cutting_everything_ends_the_exchanges(sent: int) -> None:
    stage = relay_stage()
    client = stage.client(post(b"hello")[:sent])
    stage.front.abort_all()
    assert client.was_aborted
    client.settle()
    assert all(x.client_left for x in stage.exchanges) and stage.counts.client_left == len(stage.exchanges)
    assert all(worker.was_aborted for worker in stage.workers)
    assert not armed(stage.limits) and not stage.front.open
    stage.assert_settled()


def test_cutting_a_large_body() -> None:
    stage = Stage(echo)
    client = stage.client(post(LARGE)[:70_000])
    stage.front.abort_all()
    client.settle()
    stage.assert_settled()
    assert not armed(stage.limits)


def test_counts() -> None:
    stage = Stage(echo)
    stage.client(post(b"1") + get() + post(b"2"))
    bad = stage.client(b"nonsense\n")
    assert (stage.counts.connections, stage.counts.accepted) == (2, 2)
    assert (stage.counts.fast, stage.counts.slow, stage.counts.refused) == (2, 1, 1)
    bad.end()
    assert (stage.counts.connections, stage.counts.accepted) == (1, 2)
    assert stage.limits.max_payload_bytes == LIMIT
