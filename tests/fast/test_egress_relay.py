"""Worker connections and the relay: framing at every split, streams that break at every byte, keep-alive
comments, back-pressure, reuse, and what the client makes of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast import exchange as fast
from tests.fast.reference import answers, chunked, events, heads
from tests.fast.stage import (
    CODED,
    FRAMES,
    JSON,
    LIMIT,
    SSE,
    STREAM,
    answers_of,
    play,
    post,
    relay_stage,
    sized,
)
from tests.fast.transports import BROKEN, DONE, PING, TIMED_OUT, armed, splits

# Bytes of a worker; what the client gets of them; whether the connection can be used again.
WORKERS = {
    "events": (SSE + CODED + chunked.encode(*FRAMES), STREAM, True),
    "events in odd chunks": (SSE + CODED + chunked.encode(STREAM[:5], STREAM[5:6], STREAM[6:]), STREAM, True),
    "events with extensions": (
        SSE + CODED + b"9;x=y\r\ndata: 1\n\n\r\n00e;z\r\n" + DONE + b"\r\n0;last\r\nx-sum: 1\r\n\r\n",
        b"data: 1\n\n" + DONE,
        True,
    ),
    "events of known length": (SSE + sized(STREAM), STREAM, True),
    "no events": (SSE + CODED + chunked.encode(), b"", True),
    "events and close": (SSE + b"connection: close\r\n" + CODED + chunked.encode(*FRAMES), STREAM, False),
    "a plain stream": (JSON + CODED + chunked.encode(b"{", b"}"), b"{}", True),
    "a plain answer": (JSON + sized(b"{}"), b"{}", True),
    "an empty answer": (JSON + sized(b""), b"", True),
    "an error": (b"HTTP/1.1 503 Busy\r\nretry-after: 1\r\n" + sized(b"busy"), b"busy", True),
    "a chunked error": (b"HTTP/1.1 500 No\r\n" + CODED + chunked.encode(b"n", b"o"), b"no", True),
    "interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + JSON + sized(b"{}"),
        b"{}",
        True,
    ),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", b"", True),
    "more than an answer": (JSON + sized(b"{}") + b"HTTP/1.1 200 OK\r\n\r\n", b"{}", False),
    "an old worker": (b"HTTP/1.0 200 OK\r\n" + sized(b"{}"), b"{}", False),
    "an old worker that keeps": (
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n" + sized(b"{}"),
        b"{}",
        True,
    ),
}


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", WORKERS)
def test_answers_at_every_split(name: str, stream: bool, version: bytes) -> None:
    data, body, reusable = WORKERS[name]
    for pieces in splits(data):
        stage, client = play(pieces, stream=stream, version=version)
        [only] = answers_of(client)
        assert (only.body, only.is_whole) == (body, True), pieces
        assert stage.x.outcome in (fast.ANSWERED, fast.RELAYED)
        assert stage.x.sent_bytes == len(body)
        assert stage.x.status == only.status
        assert [worker.is_closing for worker in stage.workers] == [not reusable]
        assert len(stage.pool.idle) == reusable
        assert client.is_closing == (version == b"1.0")
        stage.assert_settled()


@pytest.mark.parametrize("ending", ["eof", "lost"])
@pytest.mark.parametrize("head", [SSE, JSON])
def test_answers_that_end_with_the_connection(head: bytes, ending: str) -> None:
    for pieces in splits(head + b"\r\n" + STREAM):
        for stream in (True, False):
            stage, client = play(pieces, stream=stream)
            stage.worker.end() if ending == "eof" else stage.worker.lose()
            [only] = answers_of(client)
            assert (only.body, only.is_whole) == (STREAM, True)
            assert not stage.pool.idle and not client.is_closing
            stage.assert_settled()


@pytest.mark.parametrize(
    "name", ["events", "events in odd chunks", "events with extensions", "events of known length"]
)
def test_the_framing_is_sound_after_every_write(name: str) -> None:
    data = WORKERS[name][0]
    for cut in range(data.index(b"\r\n\r\n") + 4, len(data)):
        _, client = play((data[:cut],))
        assert answers.stands_between_chunks(client.data)


def test_whole_chunks_go_out_as_they_came() -> None:
    data = WORKERS["events"][0]
    _, client = play((data,))
    assert client.data.endswith(chunked.encode(*FRAMES))


def test_the_writes_of_a_turn_are_one() -> None:
    stage = relay_stage()
    client = stage.client(post(b"hello"))
    for piece in (SSE + CODED, b"3\r\na", b"b", b"c\r\n", b"3\r\ndef\r\n"):
        stage.worker.deliver(piece)
    assert not client.writes
    stage.turn()
    assert len(client.writes) == 1
    assert answers.read_one(client.data)[0].body == b"abcdef"


def test_what_the_client_is_told_of_the_head() -> None:
    head = SSE + b"x-own: 1\r\nset-cookie: a\r\nx-request-id: worker\r\nconnection: x-hop\r\nx-hop: 1\r\n"
    _, client = play((head + CODED + chunked.encode(b"x"),))
    [only] = answers_of(client)
    assert only.fields == [
        ("content-type", "text/event-stream"),
        ("x-own", "1"),
        ("set-cookie", "a"),
        ("x-request-id", ""),
        ("transfer-encoding", "chunked"),
    ]


@settings(max_examples=200, derandomize=True)
@given(
    st.lists(st.binary(min_size=1, max_size=30), max_size=8),
    st.lists(st.integers(0, 300), max_size=6),
    st.sampled_from([b"1.1", b"1.0"]),
)
def test_any_payload_in_any_pieces(frames: list[bytes], cuts: list[int], version: bytes) -> None:
    data = SSE + CODED + chunked.encode(*frames)
    edges = [0, *sorted(min(cut + len(SSE), len(data)) for cut in cuts), len(data)]
    pieces = tuple(data[a:b] for a, b in pairwise(edges) if a < b)
    stage, client = play(pieces, version=version)
    [only] = answers_of(client)
    assert (only.body, only.is_whole) == (b"".join(frames), True)
    assert len(stage.pool.idle) == 1


# ---- streams that break


def payload_of(data: bytes) -> bytes:
    """What a worker has said so far, framing removed."""
    head, _, body = data.partition(b"\r\n\r\n")
    return chunked.decode(body).payload if b"chunked" in head else body


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("how", ["end", "reset", "garbage", "request"])
@pytest.mark.parametrize("name", ["events", "events in odd chunks", "events of known length"])
def test_an_event_stream_broken_at_every_byte(name: str, how: str, version: bytes) -> None:
    data = WORKERS[name][0]
    if how == "garbage" and b"chunked" not in data:
        return
    for cut in range(data.index(b"\r\n\r\n") + 4, len(data)):
        stage, client = play((data[:cut],), version=version)
        frame = BROKEN
        if how == "garbage":
            stage.worker.deliver(b"\0\0\0")
            if stage.x.outcome == fast.PENDING:  # it was payload of a chunk
                continue
        elif how == "request":
            frame = TIMED_OUT
            stage.timers.fire(stage.limits.request)
        else:
            getattr(stage.worker, how)()
        stage.turn()
        payload = payload_of(data[:cut])
        [only] = answers_of(client)
        got = only.body.removeprefix(payload)
        if how == "garbage":
            got = got.lstrip(b"\0")
            payload = only.body[: len(only.body) - len(got)]
        assert only.body.startswith(payload) and only.is_whole
        assert got == events.end_of_broken(payload, frame), payload
        assert only.body.count(b"[DONE]") == 1 or b"data: [DO" in payload
        assert stage.x.outcome == fast.BROKEN and not stage.pool.idle
        assert client.is_closing == (version == b"1.0")
        stage.worker.settle()
        stage.assert_settled()


@pytest.mark.parametrize("name", ["a plain stream", "a plain answer"])
@pytest.mark.parametrize("how", ["end", "reset", "request"])
def test_another_stream_that_breaks_is_cut(name: str, how: str) -> None:
    data = WORKERS[name][0]
    for cut in range(data.index(b"\r\n\r\n") + 4, len(data)):
        stage, client = play((data[:cut],))
        stage.timers.fire(stage.limits.request) if how == "request" else getattr(stage.worker, how)()
        stage.turn()
        assert client.was_aborted and stage.x.outcome == fast.BROKEN
        client.settle()
        stage.worker.settle()
        assert not armed(stage.limits)
        stage.assert_settled()


@pytest.mark.parametrize(("how", "outcome"), [("end", None), ("reset", None), ("request", fast.TIMED_OUT)])
@pytest.mark.parametrize(
    "name", ["events", "a plain answer", "an error", "a chunked error", "interim answers"]
)
def test_an_answer_that_breaks_before_the_client_heard_of_it(
    name: str, how: str, outcome: int | None
) -> None:
    data = WORKERS[name][0]
    last_head = data.rindex(b"HTTP/1.1")
    begin = data.index(b"\r\n\r\n", last_head) + 4
    for cut in range(begin if name == "events" else len(data)):
        stage, client = play((data[:cut],), stream=name == "events")
        stage.timers.fire(stage.limits.request) if how == "request" else getattr(stage.worker, how)()
        wanted = outcome or (fast.DIED if cut < begin else fast.CUT)
        assert stage.x.outcome == wanted
        [only] = answers_of(client)
        assert only.body == b"attempt %d" % wanted and not client.is_closing
        stage.worker.settle()
        stage.assert_settled()


# ---- where a stream stands

line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.sampled_from(
    [b"data: [DONE]", b"data:[DONE]", b"data: x", b"", b"", b": data: [DONE]", b"xdata: [DONE]"]
)
texts = st.lists(st.tuples(lines, line_ends).map(b"".join), max_size=6).map(b"".join)


@settings(max_examples=400, derandomize=True)
@given(texts, st.integers(0, 80), st.integers(1, 40))
def test_the_end_of_any_broken_stream(text: bytes, cut: int, size: int) -> None:
    text = text[: len(text) - min(cut, len(text))]
    trimmed = text.rstrip(b"\r\n")
    if len(text) - len(trimmed) > 10:  # more blank lines than are remembered
        return
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    stage, client = play((SSE + CODED, *(chunked.encode(piece, end=False) for piece in pieces)))
    stage.worker.reset()
    [only] = answers_of(client)
    assert only.body == text + events.end_of_broken(text, BROKEN)
    stage.assert_settled()


# ---- silence


def test_comments_only_between_frames() -> None:
    data = WORKERS["events in odd chunks"][0]
    for cut in range(data.index(b"\r\n\r\n") + 4, len(data)):
        stage, client = play((data[:cut],), keepalive_s=1e-9)
        stage.timers.fire()
        stage.timers.fire()
        stage.turn()
        payload = payload_of(data[:cut])
        pings = PING * 2 if events.is_between_frames(payload) else b""
        assert answers.read_one(client.data)[0].body == payload + pings
        assert answers.stands_between_chunks(client.data)
        stage.worker.deliver(data[cut:])
        stage.turn()
        [only] = answers_of(client)
        assert only.body == payload + pings + STREAM[len(payload) :] and only.is_whole
        stage.timers.fire()
        assert not stage.timers.pending or stage.pool.idle
        stage.assert_settled()


def test_no_comments_in_other_answers_or_when_off() -> None:
    for pieces, options in (((JSON + CODED,), {"keepalive_s": 1e-9}), ((SSE + CODED,), {})):
        stage, client = play(pieces, **options)
        stage.timers.fire()
        stage.turn()
        assert answers.read_one(client.data)[0].body == b""
    stage, client = play((), keepalive_s=1e-9)
    stage.timers.fire()
    assert client.data == b""


def test_nothing_is_put_among_compressed_bytes() -> None:
    stage, client = play((SSE + b"content-encoding: gzip\r\n" + CODED + b"1\r\nx\r\n",), keepalive_s=1e-9)
    assert stage.timers.fire() == 0
    stage.worker.reset()
    assert client.was_aborted and answers.read_one(client.data)[0].body == b"x"


def test_old_clients_get_comments_too() -> None:
    stage, client = play((SSE + CODED,), version=b"1.0", keepalive_s=1e-9)
    stage.timers.fire()
    stage.turn()
    assert answers.read_one(client.data)[0].body == PING


@pytest.mark.parametrize("stream", [True, False])
def test_a_worker_that_stops_within_its_answer(stream: bool) -> None:
    stage, client = play(
        (SSE + CODED + chunked.encode(b"data: x\n\n", end=False),), stream=stream, between_s=1e-9
    )
    assert stage.timers.fire() == 1
    stage.turn()
    [only] = answers_of(client)
    assert only.body == b"data: x\n\n" + TIMED_OUT + DONE
    assert stage.worker.was_aborted
    stage.assert_settled()


def test_a_worker_that_stops_within_a_plain_answer() -> None:
    stage, client = play((JSON + sized(b"{}")[:-1],), stream=False, between_s=1e-9)
    assert stage.timers.fire() == 1
    assert stage.x.outcome == fast.TIMED_OUT
    assert [one.status for one in answers_of(client)] == [504]
    stage.assert_settled()


def test_a_worker_that_says_nothing() -> None:
    for owner in (None, "first_byte", "request"):
        stage, client = play((), between_s=1e-9)
        assert stage.timers.fire(owner and getattr(stage.limits, owner)) == 1
        assert stage.x.outcome == fast.TIMED_OUT
        assert [one.status for one in answers_of(client)] == [504]
        stage.assert_settled()


def test_a_silence_that_the_client_causes_does_not_count() -> None:
    stage = relay_stage(between_s=1e-9)
    client = stage.client(post(b"hello"), full_above=10)
    stage.worker.deliver(SSE + CODED)
    stage.turn()
    assert not stage.worker.is_reading
    stage.timers.fire()
    assert stage.x.outcome == fast.PENDING
    client.drain()
    stage.timers.fire()
    assert stage.x.outcome == fast.BROKEN


def test_a_first_byte_is_all_that_its_deadline_asks_for() -> None:
    stage, client = play((b"H",))
    assert "first_byte" not in armed(stage.limits)
    stage.worker.deliver((JSON + sized(b"{}"))[1:])
    stage.turn()
    assert [one.body for one in answers_of(client)] == [b"{}"]


# ---- what is no answer


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad line\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        JSON + b"content-length: 2\r\n" + CODED + b"0\r\n\r\n",
    ],
    ids=lambda data: repr(data[:40]),
)
def test_no_answer(data: bytes) -> None:
    for pieces in splits(data) if len(data) < 1000 else [(data,), (data[:100], data[100:])]:
        stage, client = play(pieces)
        assert stage.x.outcome == fast.MALFORMED
        assert [one.status for one in answers_of(client)] == [502]
        assert stage.worker.is_closing and not stage.pool.idle
        stage.assert_settled()


@pytest.mark.parametrize(
    "data",
    [JSON + b"content-length: %d\r\n\r\n" % (LIMIT + 1), JSON + CODED + chunked.encode(*[b"x" * 50_000] * 5)],
    ids=["told", "found"],
)
def test_an_answer_above_the_limit(data: bytes) -> None:
    stage, client = play((data,), stream=False)
    assert stage.x.outcome == fast.TOO_LARGE
    assert [one.status for one in answers_of(client)] == [502]
    stage.assert_settled()


def test_a_stream_has_no_limit() -> None:
    stage, client = play((SSE + CODED, *[chunked.encode(b"x" * 50_000, end=False)] * 10, b"0\r\n\r\n"))
    assert len(answers_of(client)[0].body) == 500_000
    stage.assert_settled()


# ---- back-pressure


def test_a_slow_client_slows_its_worker() -> None:
    stage = relay_stage()
    client = stage.client(post(b"hello"), full_above=1000)
    stage.worker.deliver(SSE + CODED)
    pieces = [chunked.encode(b"data: %d\n\n" % n + b"x" * 300, end=False) for n in range(50)]
    for piece in pieces:
        stage.worker.deliver(piece)
        stage.turn()
        assert client.get_write_buffer_size() < 3000
    assert not stage.worker.is_reading and stage.worker.is_holding
    stage.worker.deliver(b"0\r\n\r\n")
    while stage.x.outcome == fast.PENDING:
        client.drain()
        stage.turn()
    [only] = answers_of(client)
    assert only.body == b"".join(b"data: %d\n\n" % n + b"x" * 300 for n in range(50)) and only.is_whole
    assert stage.worker.is_reading and len(stage.pool.idle) == 1
    client.drain()
    stage.assert_settled()


def test_a_stream_that_ends_while_the_client_is_slow() -> None:
    stage = relay_stage()
    client = stage.client(post(b"hello"), full_above=10)
    stage.worker.deliver(SSE + CODED + chunked.encode(b"x" * 100))
    stage.turn()
    assert stage.x.outcome == fast.RELAYED
    assert stage.worker.is_reading and len(stage.pool.idle) == 1
    client.drain()
    stage.assert_settled()


def test_the_reference_reads_its_own_heads() -> None:
    for data, _, _ in WORKERS.values():
        first = data[: data.index(b"\r\n\r\n") + 4]
        assert heads.read_response(first).status
