"""The Realtime API through the gateway, with an independent client: frames, ends, keys, choice of worker."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Response
from websockets.typing import Subprotocol

from smg.server.frames import Times
from smg.workers.breaker import State
from smg.workers.worker import Connections
from tests.waiting import BOUND_S, happened, until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import get, post
from tests.wire.realtime_worker import Heard, RealtimeWorker, label


def session(
    live: LiveGateway, query: str = "?model=m", **options: Any
) -> AbstractAsyncContextManager[ClientConnection]:
    options = {
        "max_size": None,
        "compression": None,
        "ping_interval": None,
        "open_timeout": BOUND_S,
        **options,
    }
    return connect(f"ws://127.0.0.1:{live.port}/v1/realtime{query}", **options)


async def refusal(live: LiveGateway, query: str = "?model=m", **options: Any) -> Response:
    with pytest.raises(InvalidStatus) as raised:
        async with session(live, query, **options):
            pass
    return raised.value.response


SESSION = b'{"type":"realtime","model":"m"}'


async def closed(socket: ClientConnection) -> tuple[int | None, str | None]:
    """The code and reason that the client gets."""
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(BOUND_S):
            while True:
                await socket.recv()
    return socket.close_code, socket.close_reason


async def started(gateway: Start, *workers: RealtimeWorker, **options: Any) -> LiveGateway:
    live = await gateway(*workers, **options)
    label(live, *workers)
    return live


# ---- frames


async def test_messages_pass_both_ways_as_they_are(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    async with session(live) as socket:
        for sent in ("one", "zwölf €", b"\x00\xff", "x" * (1 << 20), b"y" * (1 << 20), "", b""):
            await socket.send(sent)
            assert await socket.recv() == sent
        for number in range(500):
            await socket.send(str(number))
        assert [await socket.recv() for _ in range(500)] == [str(number) for number in range(500)]
        await socket.send(["in ", "three ", "pieces"])
        assert await socket.recv() == "in three pieces"
    assert worker.sessions[0].request.query_string == "model=m"
    await live.settled()


async def test_pings_are_answered_by_the_other_end(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    async with session(live) as socket:
        await (await socket.ping(b"are you there"))
    assert (WSMsgType.PING, b"are you there") in [(m.type, m.data) for m in worker.sessions[0].messages]


async def test_a_slow_client_slows_the_worker_down(gateway: Start) -> None:
    piece, count = b"z" * 65536, 512

    async def flood(heard: Heard) -> None:
        for _ in range(count):
            await heard.socket.send_bytes(piece)
        await heard.next()

    live = await started(gateway, RealtimeWorker(play=flood))
    async with session(live, max_queue=1) as socket:
        await until(lambda: live.server.realtime.sessions, "the session is open")
        [relayed] = live.server.realtime.sessions
        await until(lambda: relayed.worker.frames and not relayed.worker.is_read, "the worker is not read")
        assert relayed.worker.frames < count
        for _ in range(count):
            assert await socket.recv() == piece
    await live.settled()


async def test_a_message_beyond_the_limit_ends_the_session(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker(), max_payload_size=1000)
    async with session(live) as socket:
        await socket.send("x" * 1000)
        assert await socket.recv() == "x" * 1000
        await socket.send("x" * 1001)
        assert (await closed(socket))[0] == 1009
    await happened(worker.sessions[0].ended)
    await live.settled()


# ---- the end


async def test_the_workers_close_reaches_the_client(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker())
    async with session(live) as socket:
        await socket.send("bye")
        assert await closed(socket) == (4001, "as you wish")
    await live.settled()


async def test_the_clients_close_reaches_the_worker(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    async with session(live) as socket:
        await socket.close(4002, "enough")
        assert (socket.close_code, socket.close_reason) == (4002, "enough")
    await happened(worker.sessions[0].ended)
    assert worker.sessions[0].close_code == 4002
    await live.settled()


async def test_a_worker_that_is_lost(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker())
    async with session(live) as socket:
        await socket.send("reset")
        assert (await closed(socket))[0] == 1011
    await live.settled()


async def test_a_client_that_is_lost(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    async with session(live) as socket:
        await until(lambda: worker.sessions, "the session is open")
        socket.transport.abort()
    await happened(worker.sessions[0].ended)
    assert worker.sessions[0].close_code == 1001
    await live.settled()


async def test_draining_says_good_bye(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker(), shutdown_grace_period_secs=0)
    async with session(live) as socket:
        await socket.send("hello")
        assert await socket.recv() == "hello"
        draining = asyncio.create_task(live.server.drain(0.0))
        assert await closed(socket) == (1001, "the gateway is shutting down")
        await draining
    await happened(worker.sessions[0].ended)
    assert worker.sessions[0].close_code == 1001


async def test_who_does_not_answer_is_gone(gateway: Start) -> None:
    async def deaf(heard: Heard) -> None:
        while (await heard.next()).type in (WSMsgType.TEXT, WSMsgType.PING):
            pass
        await heard.socket.close()

    live = await started(gateway, worker := RealtimeWorker(play=deaf))
    live.server.realtime.times = Times(ask=0.05, gone=0.1)
    async with session(live) as socket:
        assert await closed(socket) == (1001, "the worker does not answer")
    await happened(worker.sessions[0].ended)
    asked = [m for m in worker.sessions[0].messages if m.type is WSMsgType.PING]
    assert len(asked) == 1 and len(asked[0].data) == 8
    await live.settled()


async def test_silence_is_no_end_while_both_answer(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    live.server.realtime.times = Times(ask=0.02, gone=20)
    async with session(live) as socket:
        await until(lambda: worker.sessions and len(worker.sessions[0].messages) >= 3, "three questions")
        await socket.send("still here")
        assert await socket.recv() == "still here"
    assert worker.sessions[0].messages[0].type is WSMsgType.PING


@pytest.mark.parametrize(
    ("frame", "code"),
    [(b"\x81\x82\0\0\0\0\xff\xff", 1007), (b"\x83\x80\0\0\0\0", 1002), (b"\xf1\x80\0\0\0\0", 1002)],
)
async def test_what_is_no_frame_ends_the_session(gateway: Start, frame: bytes, code: int) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    async with session(live) as socket:
        await until(lambda: worker.sessions, "the session is open")
        socket.transport.write(frame)
        assert (await closed(socket))[0] == code
    await happened(worker.sessions[0].ended)
    await live.settled()


async def test_a_worker_that_is_taken_away_ends_its_sessions(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    async with session(live) as socket:
        await until(lambda: live.server.realtime.sessions, "the session is open")
        live.server.registry.remove(live.worker(worker))  # type: ignore[arg-type]
        assert await closed(socket) == (1001, "the worker is taken away")
    await happened(worker.sessions[0].ended)


# ---- who may, and where to


async def test_what_is_refused_before_the_upgrade(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker(), api_key="k")
    with_key = {"additional_headers": {"Authorization": "Bearer k"}}
    assert (await refusal(live)).status_code == 401
    for query in ("", "?model=", "?other=m"):
        answer = await refusal(live, query, **with_key)
        assert (answer.status_code, answer.body) == (400, b"Missing required 'model' query parameter")
    answer = await refusal(live, "?model=other", **with_key)
    assert (answer.status_code, answer.headers["x-smg-error-code"]) == (404, "model_not_found")
    plain = await live.ask(get("/v1/realtime?model=m", "authorization: Bearer k"), "GET")
    assert plain.status == 400
    async with session(live, **with_key):
        pass


async def test_only_labelled_workers_that_are_ready(gateway: Start) -> None:
    live = await gateway(worker := RealtimeWorker())
    assert (await refusal(live)).status_code == 404
    label(live, worker)
    for _ in range(10):
        live.worker(worker).breaker.record(False, asyncio.get_running_loop().time())
    assert live.worker(worker).breaker.state is State.OPEN
    answer = await refusal(live)
    assert (answer.status_code, answer.headers["x-smg-error-code"]) == (503, "no_available_workers")


async def test_the_least_loaded_worker_and_its_load(gateway: Start) -> None:
    workers = [RealtimeWorker(), RealtimeWorker()]
    live = await started(gateway, *workers)
    async with session(live) as one, session(live) as other:
        loads = [live.worker(worker).load for worker in workers]
        assert loads == [1, 1]
        told = {socket.response.headers["x-smg-routed-worker-id"] for socket in (one, other)}
        assert told == {worker.url for worker in workers}
    await live.settled()
    assert live.server.realtime.opened == 2


async def test_what_is_counted(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker())
    async with session(live):
        assert "\nsmg_realtime_sessions 1" in live.metrics
    await live.settled()
    assert "\nsmg_realtime_sessions 0" in live.metrics
    await refusal(live, "?model=other", additional_headers={"X-Request-ID": "mine"})
    [failure] = live.server.metrics.failures.latest()
    assert (failure.code, failure.model, failure.request_id) == ("model_not_found", "other", "mine")


async def test_a_session_holds_a_permit(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker(), max_concurrent_requests=1, queue_size=0)
    async with session(live):
        assert live.server.guards.permits.in_flight == 1
        answer = await refusal(live)
        assert (answer.status_code, answer.headers["x-smg-error-code"]) == (429, "admission_queue_full")
    await live.settled()
    await until(lambda: live.server.guards.permits.in_flight == 0, "the permit is back")


async def test_the_answer_has_the_requests_id(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker())
    async with session(live, additional_headers={"X-Request-ID": "mine"}) as socket:
        assert socket.response.headers["x-request-id"] == "mine"
    async with session(live) as socket:
        assert socket.response.headers["x-request-id"].startswith("req-")


@pytest.mark.parametrize(
    ("headers", "key", "sent"),
    [({"Authorization": "Bearer c"}, "wk", "Bearer c"), ({}, "wk", "Bearer wk"), ({}, None, None)],
)
async def test_the_key_a_worker_is_shown(
    gateway: Start, headers: dict[str, str], key: str | None, sent: str | None
) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    live.worker(worker).api_key = key  # type: ignore[arg-type]
    async with session(live, "?model=m&secret=1", additional_headers={**headers, "Cookie": "a=b"}):
        pass
    request = worker.sessions[0].request
    assert request.headers.get("Authorization") == sent
    assert request.query_string == "model=m"
    assert not request.headers.keys() & {"Cookie", "User-Agent", "Origin", "Sec-WebSocket-Protocol"}


async def test_a_browser_shows_its_key_among_the_protocols(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker(), api_key="k")
    offered = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.k")]
    async with session(live, subprotocols=offered, origin="https://anywhere.example") as socket:
        assert socket.subprotocol == "realtime"
    assert worker.sessions[0].request.headers["Authorization"] == "Bearer k"
    assert (await refusal(live, subprotocols=[Subprotocol("openai-insecure-api-key.x")])).status_code == 401


async def test_pages_of_other_origins_may_not_use_an_open_gateway(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker(), cors_allowed_origins=("https://app.example",))
    for origin in ("https://evil.example", "null", "https://["):
        answer = await refusal(live, origin=origin)
        assert (answer.status_code, answer.headers["x-smg-error-code"]) == (403, "origin_not_allowed")
    for origin in ("https://app.example", f"http://127.0.0.1:{live.port}"):
        async with session(live, origin=origin):
            pass


# ---- workers that do not take the session


async def test_another_worker_takes_what_one_cannot(gateway: Start) -> None:
    workers = [RealtimeWorker(), RealtimeWorker()]
    live = await started(gateway, *workers)
    workers[0].refusal = 503
    for _ in range(4):
        async with session(live) as socket:
            assert socket.response.headers["x-smg-routed-worker-id"] == workers[1].url
    await live.settled()


@pytest.mark.parametrize(("status", "told"), [(403, 403), (429, 429), (500, 502), (200, 502), (302, 502)])
async def test_a_workers_refusal(gateway: Start, status: int, told: int) -> None:
    live = await started(gateway, worker := RealtimeWorker(), disable_retries=True)
    worker.refusal = status
    answer = await refusal(live)
    assert answer.status_code == told
    if status != 302:
        assert answer.headers["x-smg-error-code"] == "realtime_refused"
    assert "/elsewhere" not in worker.paths()
    await live.settled()


async def test_a_refusal_that_the_worker_has_tried_again(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker(), retry_max_retries=2)
    worker.refusal = 418
    assert (await refusal(live)).status_code == 418
    once = worker.paths().count("/v1/realtime")
    live.worker(worker).retryable = {418}  # type: ignore[arg-type]
    assert (await refusal(live)).status_code == 418
    assert (once, worker.paths().count("/v1/realtime")) == (1, 3)
    await live.settled()


async def test_a_connect_timeout_of_the_workers_own(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker(), disable_retries=True, connect_timeout_secs=3600)
    over = asyncio.Event()

    async def says_nothing(request: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    worker.answers["/v1/realtime"] = says_nothing
    live.worker(worker).connections = Connections(connect_s=0.05)  # type: ignore[arg-type]
    answer = await refusal(live)
    assert answer.headers["x-smg-error-code"] == "call_upstream_connection_failed"
    over.set()
    await live.settled()


async def test_a_worker_that_is_not_there(gateway: Start) -> None:
    live = await started(gateway, worker := RealtimeWorker(), retry_max_retries=2)
    registered = live.worker(worker)  # type: ignore[arg-type]
    await worker.stop()
    answer = await refusal(live)
    assert (answer.status_code, answer.headers["x-smg-error-code"]) == (
        502,
        "call_upstream_connection_failed",
    )
    assert registered.breaker.consecutive_failures == 1
    await live.settled()


# ---- the HTTP routes


async def test_sessions_go_to_the_workers_of_the_realtime_api(gateway: Start) -> None:
    other = RealtimeWorker()
    live = await started(gateway, worker := RealtimeWorker())
    worker.answers["/v1/realtime/sessions"] = {"id": "sess_1"}
    answer = await live.ask(post(SESSION, target="/v1/realtime/sessions"))
    assert (answer.status, answer.json()) == (200, {"id": "sess_1"})
    live.worker(worker).labels.clear()
    answer = await live.ask(post(SESSION, target="/v1/realtime/sessions"))
    assert answer.status == 404 and not other.seen


async def test_a_client_that_leaves_before_the_worker_has_answered(
    gateway: Start, caplog: pytest.LogCaptureFixture
) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    asked, may_answer = asyncio.Event(), asyncio.Event()
    usual = worker.answers["/v1/realtime"]

    async def late(request: web.Request) -> web.StreamResponse:
        asked.set()
        await happened(may_answer)
        answer: web.StreamResponse = await usual(request)
        return answer

    worker.answers["/v1/realtime"] = late
    client = await live.client()
    lines = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    await client.send(get("/v1/realtime?model=m", *lines, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
    await happened(asked)
    client.reset()
    await until(lambda: live.counts.connections == 0, "the client is gone")
    may_answer.set()
    await until(lambda: worker.sessions, "the worker has upgraded")
    await happened(worker.sessions[0].ended)
    await live.settled()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
