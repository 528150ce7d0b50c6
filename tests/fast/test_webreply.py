"""Messages that are lent: their exchanges ask for the body and answer through another server's protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg._fast.front import Front
from smg._fast.head import RequestHead
from smg._fast.ingress import Ingress
from smg._fast.webreply import WebReply
from tests.fast.reference import chunked
from tests.fast.stage import (
    JSON,
    LIMIT,
    SSE,
    Serve,
    Stage,
    answer,
    answers_of,
    echo,
    fail_body,
    forever,
    post,
    post_chunked,
    refuse,
    relaying,
    sized,
)
from tests.fast.transports import FakeTransport, armed, pass_a_moment, splits
from tests.waiting import turns

EXPECTING = b"expect: 100-continue"
WAITING = post(b"hello")[:-5]


class Desk:
    """Stands in for aiohttp's protocol and for the carrier; like both it does everything in a later turn."""

    def __init__(self, stage: Lending, ingress: Ingress) -> None:
        self.stage = stage
        self.ingress = ingress
        self.transport: Any = None
        self.head: RequestHead | None = None
        self.reply: WebReply | None = None
        self.received = b""
        self.lost: list[BaseException | None] = []
        self.is_asked = self.is_paused = self.was_cut = False
        self.is_ingress_closing = False
        self._given = self._length = 0
        self._keeps = False

    # ---- aiohttp

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def head_received(self, head: RequestHead) -> None:
        assert self.ingress.lends
        self.head = head
        self.received = b""
        self._given = 0
        self.is_asked = False
        if self.stage.begins:
            self.stage.timers.call_soon(self.begin)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.is_asked and self.stage.passes:
            self.stage.timers.call_soon(self.pass_on)

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.append(error)
        if self.reply is not None:
            self.reply.close()

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    # ---- the handler

    def begin(self) -> None:
        if self.lost:
            return
        self.reply = WebReply(self.ingress, self)
        self.reply.begin("x", self.stage.run)

    def pass_on(self) -> None:
        """Give the exchange what has come of the body."""
        assert self.head is not None and self.reply is not None
        if self.is_paused:
            return
        payload, is_whole = self.received, len(self.received) == self.head.content_length
        if self.head.chunked:
            payload, is_whole, _ = chunked.decode(self.received)
        if piece := payload[self._given :]:
            self._given = len(payload)
            self.reply.body_piece(piece)
        if is_whole:
            self.reply.body_end()

    # ---- the carrier

    def read_body(self) -> None:
        self.is_asked = True
        if self.stage.passes:
            self.stage.timers.call_soon(self.pass_on)

    def pause_body(self) -> None:
        self.is_paused = True

    def resume_body(self) -> None:
        self.is_paused = False
        self.stage.timers.call_soon(self.pass_on)

    def start(self, status: int, reason: bytes, head: bytes, length: int, keep: bool) -> None:
        self._length, self._keeps = length, keep
        self.transport.write(head)

    def write(self, data: bytes) -> None:
        self.transport.write(data if self._length != -1 else chunked.encode(data, end=False))

    def end(self) -> None:
        if self._length == -1:
            self.transport.write(b"0\r\n\r\n")
        if self.stage.delivers:
            self.stage.timers.call_soon(self.deliver)

    def deliver(self) -> None:
        """The client has taken the answer."""
        assert self.reply is not None
        self.reply.close()
        if not self.lost:
            self.done(self._keeps)

    def done(self, keep: bool) -> None:
        self.is_ingress_closing = self.ingress.fallback_done(keep)

    def cut(self) -> None:
        self.was_cut = True


class Lending(Stage):
    """Every exchange goes through a desk. Not `begins`: nobody has begun it yet; not `passes`: the body stays
    at the desk; not `delivers`: the client has not taken the answer yet."""

    def __init__(
        self, serve: Serve, *, begins: bool = True, passes: bool = True, delivers: bool = True, **limits: Any
    ) -> None:
        super().__init__(serve, **limits)
        self.begins, self.passes, self.delivers = begins, passes, delivers
        self.desks: list[Desk] = []
        self.front = Front(
            self.limits,
            self.counts,
            routes={},
            lent=frozenset((b"/x",)),
            serve=self.run,
            refuse=refuse,
            make_fallback=self._make_desk,
        )

    def run(self, x: Exchange) -> Any:
        return self._run(x)

    def _make_desk(self, ingress: Ingress) -> Desk:
        self.desks.append(Desk(self, ingress))
        return self.desks[-1]

    @property
    def desk(self) -> Desk:
        return self.desks[-1]

    def assert_settled(self) -> None:
        super().assert_settled()
        assert self.counts.fast == 0


def relay_lending(*, stream: bool = True, piped: bool = False, worker: Any = None, **options: Any) -> Lending:
    made: list[Lending] = []
    serve = relaying(lambda: made[0], stream=stream, piped=piped, **(worker or {}))
    made.append(Lending(serve, **options))
    return made[0]


def spoken(client: FakeTransport) -> list[tuple[int, bytes]]:
    return [(one.status, one.body) for one in answers_of(client) if one.status != 100]


async def refuses(x: Exchange) -> None:
    x.answer(401, b"No", b"", b"who?")


CONVERSATIONS = {
    "length": (post(b"hello"), [(200, b"hello")]),
    "no body": (post(b""), [(200, b"")]),
    "no length": (b"POST /x HTTP/1.1\r\nhost: g\r\n\r\n", [(200, b"")]),
    "chunked": (post_chunked(b"he", b"llo"), [(200, b"hello")]),
    "empty chunked": (post_chunked(), [(200, b"")]),
    "extensions and trailers": (
        post_chunked(end=False) + b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        [(200, b"hello")],
    ),
    "three": (post(b"1") + post_chunked(b"2") + post(b"3"), [(200, b"1"), (200, b"2"), (200, b"3")]),
    "an upgrade": (post(b"1", b"connection: upgrade", b"upgrade: websocket"), [(200, b"1")]),
    "expecting": (post(b"hello", EXPECTING), [(200, b"hello")]),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_messages_at_every_split(name: str) -> None:
    text, expected = CONVERSATIONS[name]
    for pieces in splits(text + post(b"last")):
        stage = Lending(echo)
        client = stage.client(*pieces)
        assert spoken(client) == [*expected, (200, b"last")]
        assert armed(stage.limits) == {"idle": 1}
        stage.assert_settled()
        assert stage.counts.slow == len(expected) + 1


def test_the_body_is_lent_when_the_exchange_asks() -> None:
    stage = Lending(echo, begins=False)
    client = stage.client(post(b"hello", EXPECTING)[:-5])
    assert stage.desk.received == b"" and client.data == b"" and not armed(stage.limits)
    stage.desk.begin()
    assert client.take() == b"HTTP/1.1 100 Continue\r\n\r\n" and armed(stage.limits)
    stage.send(client, b"hello")
    assert spoken(client) == [(200, b"hello")]
    stage.assert_settled()


@pytest.mark.parametrize("sent", [b"", b"he", b"hello", b"hello" + post(b"2")])
def test_an_answer_without_the_body(sent: bytes) -> None:
    """The connection is kept when the body is here already, as on the fast path."""
    stage = Lending(refuses)
    client = stage.client(WAITING + sent)
    is_whole = len(sent) >= 5
    assert spoken(client) == [(401, b"who?")] * (2 if len(sent) > 5 else 1)
    assert answers_of(client)[0].closes is not is_whole
    assert stage.desk.is_ingress_closing is client.sent_eof is not is_whole
    client.end()
    assert not armed(stage.limits)
    stage.assert_settled()


LEAVING = {
    "before the body": (WAITING, {}),
    "in the body": (WAITING + b"he", {}),
    "before the exchange": (WAITING, {"begins": False}),
    "with the body at the desk": (post(b"hello"), {"passes": False}),
    "while a worker is asked": (post(b"hello"), {}),
}


@pytest.mark.parametrize(("sent", "options"), LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize("how", ["reset", "end"])
@pytest.mark.parametrize("piped", [False, True])
def test_the_client_leaves(sent: bytes, options: dict[str, Any], how: str, piped: bool) -> None:
    stage = relay_lending(piped=piped, **options)
    client = stage.client(sent)
    getattr(client, how)()
    client.settle()
    client.end()
    client.settle()
    for worker in stage.workers:
        assert worker.was_aborted
        worker.settle()
    assert not armed(stage.limits)
    assert stage.desk.lost
    stage.assert_settled()


def test_the_client_leaves_a_stream() -> None:
    stage = relay_lending()
    client = stage.client(post(b"hello"))
    stage.worker.deliver(SSE + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n")
    assert client.data.endswith(b"1\r\na\r\n")
    client.reset()
    assert stage.worker.was_aborted and stage.counts.client_left == 1 and stage.x.client_left
    stage.worker.settle()
    stage.assert_settled()


def test_a_body_that_ends_early_is_answered() -> None:
    stage = Lending(echo)
    client = stage.client(WAITING + b"he")
    client.end()
    assert spoken(client) == [(400, b"body %d" % fast.BODY_ABORTED)]
    stage.assert_settled()


@pytest.mark.parametrize("request_", [WAITING + b"he", post_chunked(b"he", end=False)])
@pytest.mark.parametrize(("which", "how"), [("body_stall", fast.BODY_STALLED), ("request", fast.BODY_LATE)])
def test_a_body_that_stops(request_: bytes, which: str, how: int) -> None:
    stage = Lending(echo)
    client = stage.client(request_)
    pass_a_moment()
    stage.timers.fire(getattr(stage.limits, which))
    stage.turn()
    assert spoken(client) == [(408, b"body %d" % how)]
    stage.send(client, b"more")
    assert client.sent_eof
    client.end()
    assert not armed(stage.limits)
    stage.assert_settled()


def test_a_body_that_nobody_asks_for_does_not_stall() -> None:
    async def waits(x: Exchange) -> None:
        await forever()

    async def play() -> None:
        stage = Lending(waits)
        client = stage.client(WAITING)
        assert not armed(stage.limits)
        client.reset()
        await turns()
        stage.assert_settled()

    asyncio.run(play())


def test_what_comes_ahead_is_bounded_and_its_client_is_watched() -> None:
    async def play() -> None:
        async def waits(x: Exchange) -> None:
            await forever()

        stage = Lending(waits)
        client = stage.client(WAITING, b"x" * 100_000)
        assert not client.is_reading and stage.limits.look.armed == 1
        stage.front.abort_all()
        client.settle()
        await turns()
        assert stage.x.client_left
        stage.assert_settled()

    asyncio.run(play())


@pytest.mark.parametrize(
    "request_",
    [
        post(b"x" * 30)[:-30],
        post_chunked(b"x" * 9, b"y" * 3),
        post_chunked(b"x" * 11, end=False),
        # What comes behind the limit is nobody's business.
        post_chunked(b"x" * 11, end=False) + b"Z\r\n",
        post_chunked(*[b"x"] * 20, end=False) + b"Z\r\n",
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_bodies_that_are_too_large(request_: bytes, piped: bool) -> None:
    async def serve(x: Exchange) -> None:
        if piped:
            x.pipe_body()
            await x.send(stage.connection(), b"POST /w HTTP/1.1\r\n\r\n", None)
        else:
            await x.receive_body(10)
        fail_body(x)

    stage = Lending(serve, max_payload_bytes=10)
    client = stage.client(request_)
    assert spoken(client) == [(413, b"body %d" % fast.BODY_TOO_LARGE)]
    assert (client.sent_eof or client.is_closing) and all(worker.was_aborted for worker in stage.workers)
    for worker in stage.workers:
        worker.settle()
    client.end()
    stage.assert_settled()


@pytest.mark.parametrize("before", [b"", b"1\r\na\r\n"])
def test_a_body_that_is_no_chunked_coding(before: bytes) -> None:
    for pieces in splits(post_chunked(end=False) + before + b"Z\r\n" + post(b"2")):
        stage = Lending(echo)
        client = stage.client(*pieces)
        assert spoken(client) == [(400, b"body %d" % fast.BODY_MALFORMED)]
        assert len(stage.exchanges) == stage.counts.refused == 1
        assert client.sent_eof
        stage.assert_settled()


@pytest.mark.parametrize(
    "more", [b"Z\r\n", b"1\r\nb\r\nZ\r\n", b"1\r\nb\r\n0\r\n\r\n" + post(b"2"), b"1\r\nb"]
)
def test_what_comes_of_a_body_while_its_answer_is_on_its_way_is_not_answered(more: bytes) -> None:
    """An exchange may answer before the body has ended, and aiohttp takes its time to write that."""
    for pieces in splits(more):
        stage = Lending(echo, delivers=False)
        client = stage.client(post_chunked(b"a", end=False))
        pass_a_moment()
        stage.timers.fire(stage.limits.request)
        stage.turn()
        for piece in pieces:
            stage.send(client, piece)
        stage.desk.deliver()
        assert spoken(client) == [(408, b"body %d" % fast.BODY_LATE)]
        client.end()
        assert client.is_closing and not armed(stage.limits)
        stage.assert_settled()


def test_a_sink_takes_the_pieces_and_may_refuse() -> None:
    taken: list[bytes] = []

    def sink(data: bytes) -> None:
        if b"!" in data:
            raise ValueError
        taken.append(data)

    async def serve(x: Exchange) -> None:
        await x.receive_into(sink, LIMIT)
        answer(x, b"ok") if x.received == fast.BODY_COMPLETE else fail_body(x)

    stage = Lending(serve)
    client = stage.client(WAITING + b"he", b"llo", WAITING + b"w", b"hy!?")
    assert taken == [b"he", b"llo", b"w"]
    assert spoken(client) == [(200, b"ok"), (400, b"body %d" % fast.BODY_MALFORMED)]
    stage.assert_settled()


def test_a_slow_worker_pauses_the_body() -> None:
    stage = relay_lending(piped=True, worker={"full_above": 80}, stream=False)
    client = stage.client(post(b"x" * 100)[:-100])
    stage.send(client, b"x" * 90)
    assert stage.desk.is_paused and not client.is_reading
    assert not stage.limits.body_stall.armed, "it is not the client that is slow"
    stage.worker.drain()
    assert not stage.desk.is_paused and client.is_reading and stage.limits.body_stall.armed
    stage.send(client, b"x" * 10)
    stage.worker.drain()
    stage.worker.deliver(JSON + sized(b"{}"))
    assert spoken(client) == [(200, b"{}")]
    stage.assert_settled()


def test_a_slow_client_pauses_the_worker() -> None:
    stage = relay_lending()
    client = stage.client(post(b"hello"), full_above=200)
    stage.worker.deliver(SSE + b"transfer-encoding: chunked\r\n\r\n" + chunked.encode(b"x" * 300, end=False))
    assert not stage.worker.is_reading
    client.drain()
    assert stage.worker.is_reading
    stage.worker.deliver(b"0\r\n\r\n")
    assert spoken(client) == [(200, b"x" * 300)]
    client.drain()
    stage.assert_settled()


def test_who_waits_for_the_delivery_is_told() -> None:
    told: list[str] = []

    async def serve(x: Exchange) -> None:
        answer(x, b"ok")
        x.when_delivered(lambda: told.append("now"))

    for leaves in (False, True):
        stage = Lending(serve, delivers=False)
        client = stage.client(post(b""))
        assert told == [] and armed(stage.limits) == {"idle": 1}
        if leaves:
            client.reset()
        else:
            stage.desk.deliver()
        assert told == ["now"]
        told.clear()
        stage.assert_settled()


def test_a_client_that_takes_nothing_of_its_answer_is_cut() -> None:
    async def serve(x: Exchange) -> None:
        answer(x, b"ok" * 100)

    stage = Lending(serve, delivers=False)
    client = stage.client(post(b""), full_above=10)
    for _ in range(2):
        pass_a_moment()
        stage.timers.fire(stage.limits.idle)
    assert client.was_aborted
    client.settle()
    stage.assert_settled()


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("sent", [b"", b"he", b"hello"])
def test_a_handler_that_gives_up(keep: bool, sent: bytes) -> None:
    """The exchange ends as if its client had left; who answers instead may keep the connection."""
    stage = relay_lending()
    client = stage.client(WAITING + sent)
    assert stage.desk.reply is not None
    stage.desk.reply.close()
    assert stage.ended and stage.x.client_left and stage.counts.client_left == 0
    for worker in stage.workers:
        assert worker.was_aborted
        worker.settle()
    client.write(b"HTTP/1.1 504 Late\r\ncontent-length: 0\r\n\r\n")
    stage.desk.done(keep)
    if not keep:
        assert stage.desk.is_ingress_closing and (client.is_closing or client.sent_eof)
        return
    stage.send(client, b"hello"[len(sent) :] + post(b"2"))
    assert len(stage.exchanges) == 2
    client.reset()
    stage.worker.settle()
    stage.assert_settled()


@pytest.mark.parametrize("sent", [b"", b"he", b"hello"])
def test_an_answer_without_an_exchange(sent: bytes) -> None:
    """The body that was kept back is given after it, and dropped there."""
    stage = Lending(echo, begins=False)
    client = stage.client(WAITING + sent)
    client.write(b"HTTP/1.1 429 Later\r\ncontent-length: 0\r\n\r\n")
    stage.desk.done(True)
    stage.begins = True
    stage.send(client, b"hello"[len(sent) :] + post(b"2"))
    assert spoken(client) == [(429, b""), (200, b"2")]
    assert len(stage.exchanges) == 1
    stage.assert_settled()


def test_who_waits_to_be_asked_is_not_asked_after_an_answer() -> None:
    stage = Lending(echo, begins=False)
    client = stage.client(post(b"hello", EXPECTING)[:-5])
    client.write(b"HTTP/1.1 429 Later\r\ncontent-length: 0\r\n\r\n")
    stage.desk.done(True)
    assert [one.status for one in answers_of(client)] == [429] and client.sent_eof
    assert stage.desk.is_ingress_closing
    client.end()
    stage.assert_settled()


def test_nothing_more_comes_of_a_reply_that_is_over() -> None:
    stage = Lending(echo)
    client = stage.client(post(b"hello"))
    assert stage.desk.reply is not None
    before = client.data
    stage.desk.reply.body_piece(b"more")
    stage.desk.reply.body_end()
    stage.desk.reply.body_failed()
    stage.desk.reply.close()
    assert client.data == before
    with pytest.raises(RuntimeError):
        stage.desk.begin()
    client.reset()
    assert stage.desk.ingress.fallback_done(True), "there is nothing left to close"
    stage.assert_settled()


def test_an_exchange_that_answers_nothing_cuts_the_connection() -> None:
    async def serve(x: Exchange) -> None:
        await x.receive_body(LIMIT)

    stage = Lending(serve)
    client = stage.client(post(b"hello"))
    assert stage.desk.was_cut and client.was_aborted
    client.settle()
    stage.assert_settled()


def test_draining_ends_a_lent_message_with_a_close() -> None:
    stage = relay_lending(stream=False)
    busy = stage.client(post(b"1"))
    stage.front.close_idle()
    stage.worker.deliver(JSON + sized(b"{}"))
    stage.turn()
    assert spoken(busy) == [(200, b"{}")] and busy.is_closing
    stage.assert_settled()
