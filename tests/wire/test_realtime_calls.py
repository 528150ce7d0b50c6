"""WebRTC calls: an independent peer on one side, a worker's WebSocket on the other."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aioice.ice
import pytest
from aiohttp import WSMsgType
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack
from av import AudioFrame

from smg.server import realtime_calls
from tests.waiting import BOUND_S, happened, until
from tests.wire.conftest import Start
from tests.wire.live_gateway import LiveGateway
from tests.wire.raw_client import Response, head
from tests.wire.realtime_worker import Heard, RealtimeWorker, label

TONE = b"\x00\x40" * 24000
"""A second of a constant, loud enough to be told from silence."""


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both peers offer the loopback address, which the library leaves out."""
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])


@pytest.fixture
async def peer() -> AsyncIterator[RTCPeerConnection]:
    made = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    yield made
    await made.close()


async def started(gateway: Start, worker: RealtimeWorker, **options: Any) -> LiveGateway:
    live = await gateway(worker, **options)
    label(live, worker)
    return live


async def ask(live: LiveGateway, body: bytes, kind: str, query: str = "?model=m") -> Response:
    lines = (f"Content-Type: {kind}", f"Content-Length: {len(body)}")
    return await live.ask(head("POST", f"/v1/realtime/calls{query}", *lines) + body)


def form(sdp: str, session: dict[str, Any]) -> tuple[bytes, str]:
    parts = {"sdp": sdp, "session": json.dumps(session)}
    lines = [f'--x\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in parts.items()]
    return ("".join(lines) + "--x--\r\n").encode(), "multipart/form-data; boundary=x"


async def offer_of(peer: RTCPeerConnection) -> str:
    await peer.setLocalDescription(await peer.createOffer())
    return peer.localDescription.sdp


async def call(live: LiveGateway, peer: RTCPeerConnection, session: dict[str, Any] | None = None) -> Response:
    """Begin a call; the peer connects by itself afterwards."""
    sdp = await offer_of(peer)
    if session is not None:
        answer = await ask(live, *form(sdp, session), query="")
    else:
        answer = await ask(live, sdp.encode(), "application/sdp")
    assert answer.status == 201, answer.body
    await peer.setRemoteDescription(RTCSessionDescription(sdp=answer.body.decode(), type="answer"))
    return answer


class Channel:
    """A data channel and what came by it."""

    def __init__(self, peer: RTCPeerConnection) -> None:
        self.channel = peer.createDataChannel("oai-events")
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.opened, self.closed = asyncio.Event(), asyncio.Event()
        self.channel.on("open", self.opened.set)
        self.channel.on("close", self.closed.set)
        self.channel.on("message", self.messages.put_nowait)

    async def next(self) -> str:
        async with asyncio.timeout(BOUND_S):
            return await self.messages.get()


async def test_events_pass_both_ways(gateway: Start, peer: RTCPeerConnection) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    channel = Channel(peer)
    answer = await call(live, peer)
    assert answer.get("content-type") == "application/sdp"
    assert (answer.get("location") or "").startswith("/v1/realtime/calls/rtc_")
    assert answer.get("x-smg-routed-worker-id") == worker.url
    await happened(channel.opened)
    for number in range(50):
        channel.channel.send(f'{{"type":"event {number}"}}')
    assert [await channel.next() for _ in range(50)] == [f'{{"type":"event {n}"}}' for n in range(50)]
    channel.channel.send("x" * 60_000)
    assert await channel.next() == "x" * 60_000
    assert live.worker(worker).load == 1 and live.server.guards.permits.in_flight == 1  # type: ignore[arg-type]
    assert "\nsmg_realtime_sessions 1" in live.metrics
    await peer.close()
    await happened(worker.sessions[0].ended)
    await live.settled()
    await until(lambda: live.server.guards.permits.in_flight == 0, "the permit is back")


async def test_the_session_of_the_form_is_the_first_event(gateway: Start, peer: RTCPeerConnection) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    Channel(peer)
    await call(live, peer, {"type": "realtime", "model": "m", "voice": "x"})
    await until(lambda: worker.sessions and worker.sessions[0].messages, "the worker has heard it")
    told = json.loads(worker.sessions[0].messages[0].data)
    assert told == {"type": "session.update", "session": {"type": "realtime", "model": "m", "voice": "x"}}


async def test_events_of_a_worker_that_is_quick_wait_for_the_channel(
    gateway: Start, peer: RTCPeerConnection
) -> None:
    async def greet(heard: Heard) -> None:
        for number in range(3):
            await heard.socket.send_str(f"hello {number}")
        await heard.next()

    live = await started(gateway, RealtimeWorker(play=greet))
    channel = Channel(peer)
    await call(live, peer)
    assert [await channel.next() for _ in range(3)] == ["hello 0", "hello 1", "hello 2"]


async def test_sound_goes_both_ways(gateway: Start, peer: RTCPeerConnection) -> None:
    async def speak(heard: Heard) -> None:
        for at in range(0, len(TONE), 9600):
            delta = base64.b64encode(TONE[at : at + 9600]).decode()
            await heard.socket.send_str(json.dumps({"type": "response.output_audio.delta", "delta": delta}))
        await heard.socket.send_str('{"type":"response.done"}')
        while (await heard.next()).type is WSMsgType.TEXT:
            pass
        await heard.socket.close()

    live = await started(gateway, worker := RealtimeWorker(play=speak))
    channel = Channel(peer)
    peer.addTrack(AudioStreamTrack())
    tracks: list[Any] = []
    peer.on("track", tracks.append)
    await call(live, peer)
    # The sound itself is no event for the client.
    assert await channel.next() == '{"type":"response.done"}'
    [track] = tracks
    async with asyncio.timeout(BOUND_S):
        while True:
            frame = await track.recv()
            assert isinstance(frame, AudioFrame)
            if max(abs(int(value)) for value in memoryview(bytes(frame.planes[0])).cast("h")) > 4000:
                break

    def spoken() -> list[dict[str, Any]]:
        texts = [json.loads(m.data) for m in worker.sessions[0].messages if m.type is WSMsgType.TEXT]
        return [one for one in texts if one["type"] == "input_audio_buffer.append"]

    await until(lambda: len(spoken()) >= 10, "the worker hears the client")
    sizes = {len(base64.b64decode(one["audio"])) for one in spoken()[1:]}
    assert sizes <= set(range(0, 2000, 2)) and max(sizes) == 960


async def test_the_worker_ends_the_call(gateway: Start, peer: RTCPeerConnection) -> None:
    live = await started(gateway, RealtimeWorker())
    channel = Channel(peer)
    await call(live, peer)
    await happened(channel.opened)
    channel.channel.send("bye")
    await happened(channel.closed)
    await live.settled()


async def test_draining_ends_calls(gateway: Start, peer: RTCPeerConnection) -> None:
    live = await started(gateway, worker := RealtimeWorker(), shutdown_grace_period_secs=0)
    channel = Channel(peer)
    await call(live, peer)
    await happened(channel.opened)
    await live.server.drain(0.0)
    await happened(worker.sessions[0].ended)
    assert worker.sessions[0].close_code == 1001
    await happened(channel.closed)


async def test_offers_that_lead_to_nothing(gateway: Start, peer: RTCPeerConnection) -> None:
    live = await started(gateway, worker := RealtimeWorker(), retry_max_retries=1)
    Channel(peer)
    sdp = await offer_of(peer)
    for body, query, status, code in (
        (sdp, "?model=other", 404, "model_not_found"),
        (sdp, "", 400, "missing_model"),
        ("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=audio\r\n", "?model=m", 400, "invalid_sdp"),
        (sdp.replace("a=fingerprint", "a=nothing"), "?model=m", 400, "invalid_sdp"),
    ):
        answer = await ask(live, body.encode(), "application/sdp", query)
        assert (answer.status, answer.code) == (status, code)
    worker.refusal = 403
    answer = await ask(live, sdp.encode(), "application/sdp")
    assert (answer.status, answer.code) == (403, "realtime_refused")
    await live.settled()
    await until(lambda: live.server.guards.permits.in_flight == 0, "no permit is held")
    assert not live.server.calls.open


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "aiortc", None)
    monkeypatch.delitem(sys.modules, realtime_calls._BRIDGE, raising=False)
    monkeypatch.delitem(sys.modules, f"{realtime_calls._BRIDGE}_audio", raising=False)
    yield


async def test_without_the_extra_they_are_refused(
    gateway: Start, peer: RTCPeerConnection, without_the_extra: None
) -> None:
    live = await started(gateway, worker := RealtimeWorker())
    Channel(peer)
    sdp = (await offer_of(peer)).encode()
    for model, status, code in (("m", 501, "webrtc_not_supported"), ("x", 404, "model_not_found")):
        answer = await ask(live, sdp, "application/sdp", f"?model={model}")
        assert (answer.status, answer.code) == (status, code)
    assert not worker.sessions
    await live.settled()


async def test_keys_come_first(gateway: Start) -> None:
    live = await started(gateway, RealtimeWorker(), api_key="k")
    assert (await ask(live, b"", "text/plain")).status == 401
