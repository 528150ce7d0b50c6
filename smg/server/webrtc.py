"""A WebRTC call, ended here, and the realtime session it stands for: the client's data channel and sound on
one side, the worker's WebSocket on the other. Needs the extra `webrtc`."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import ClientWebSocketResponse, WSCloseCode, WSMsgType
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.exceptions import InternalError, InvalidAccessError, InvalidStateError
from aiortc.mediastreams import MediaStreamTrack

from smg import errors
from smg.api.realtime import Offer
from smg.server.frames import End, Times, closed_by
from smg.server.webrtc_audio import Speaker, listen

CONNECT_S = 30.0
"""How long a client may take to connect after it has its answer."""
CLOSE_S = 5.0
MAX_EVENTS = 256
"""Events that wait, in either direction."""
MAX_UNSENT_BYTES = 1 << 20

_SOUND = frozenset({"response.output_audio.delta", "response.audio.delta"})
_INTERRUPTIONS = frozenset({"input_audio_buffer.speech_started", "output_audio_buffer.clear"})
_NEEDED = (b"a=ice-ufrag:", b"a=ice-pwd:", b"a=fingerprint:")
# What the library raises for an offer that it cannot take.
_UNUSABLE = (ValueError, LookupError, AssertionError, InternalError, InvalidAccessError, InvalidStateError)


Send = Callable[[str | bytes], Awaitable[None]]


class Event(msgspec.Struct):
    """What the gateway reads of an event."""

    type: str = ""
    delta: str = ""


class Bridge:
    """`accept` reads the offer, `answer` gives ours, `run` relays until an end of the call or `stop`."""

    def __init__(self, offer: Offer, times: Times | None = None) -> None:
        self._offer = offer
        self._times = times or Times()
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._speaker: Speaker | None = None
        self._microphone: MediaStreamTrack | None = None
        self._channel: RTCDataChannel | None = None
        self._is_drained = asyncio.Event()
        self._early: deque[str] = deque()
        self._events: asyncio.Queue[str | bytes] = asyncio.Queue(MAX_EVENTS)
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._peer.on("datachannel", self._on_channel)
        self._peer.on("track", self._on_track)
        self._peer.on("connectionstatechange", self._on_state)

    def stop(self, code: int, reason: bytes) -> None:
        self._end("gateway", code, reason)

    async def accept(self) -> None:
        """Read the offer; raises 400."""
        if not all(line in self._offer.sdp for line in _NEEDED):
            raise errors.invalid_call("invalid_sdp", "The offer names no keys for ICE and DTLS")
        try:
            sdp = self._offer.sdp.decode()
            await self._peer.setRemoteDescription(RTCSessionDescription(sdp=sdp, type="offer"))
        except _UNUSABLE:
            raise errors.invalid_call("invalid_sdp", "The offer cannot be accepted") from None

    async def answer(self) -> bytes:
        """Our session description, with the addresses at which the call is expected."""
        for transceiver in self._peer.getTransceivers():
            if transceiver.kind != "audio":
                transceiver.direction = "inactive"
            elif self._speaker is None:
                self._speaker = Speaker(self._offer.rate)
                self._peer.addTrack(self._speaker)
        await self._peer.setLocalDescription(await self._peer.createAnswer())
        return self._peer.localDescription.sdp.encode()

    async def run(self, socket: ClientWebSocketResponse) -> End:
        """Relay; returns when the call and the socket are closed."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._from_client(socket)), loop.create_task(self._from_worker(socket))]
        if self._microphone is not None:
            send = self._sending(socket)
            tasks.append(loop.create_task(listen(self._microphone, self._offer.rate, send)))
        late = loop.call_later(CONNECT_S, self._check_connected)
        try:
            end = await self._ended
        finally:
            late.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.close()
        await socket.close(code=end.code, message=end.reason)
        return end

    async def close(self) -> None:
        """End the call, if there is one."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._peer.close()
        except TimeoutError:
            pass

    # ---- from the client

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if self._channel is not None:
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = MAX_UNSENT_BYTES // 2
        channel.on("bufferedamountlow", self._is_drained.set)
        channel.on("message", self._on_message)
        channel.on("close", lambda: self._end("client", WSCloseCode.GOING_AWAY, b"the client is gone"))
        while self._early:
            channel.send(self._early.popleft())

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "audio" and self._microphone is None:
            self._microphone = track

    def _on_state(self) -> None:
        if self._peer.connectionState in ("failed", "closed"):
            self._end("client", WSCloseCode.GOING_AWAY, b"the client is gone")

    def _check_connected(self) -> None:
        if self._peer.connectionState != "connected":
            self._end("client", WSCloseCode.GOING_AWAY, b"the client did not connect")

    def _on_message(self, data: str | bytes) -> None:
        if self._speaker is not None and isinstance(data, str) and _read(data).type in _INTERRUPTIONS:
            self._speaker.hush()
        try:
            self._events.put_nowait(data)
        except asyncio.QueueFull:
            self._end(
                "client", WSCloseCode.POLICY_VIOLATION, b"events come faster than the worker takes them"
            )

    async def _from_client(self, socket: ClientWebSocketResponse) -> None:
        send = self._sending(socket)
        if self._offer.session is not None:
            await send('{"type":"session.update","session":' + self._offer.session.decode() + "}")
        while True:
            await send(await self._events.get())

    def _sending(self, socket: ClientWebSocketResponse) -> Send:
        async def send(data: str | bytes) -> None:
            kind = WSMsgType.TEXT if isinstance(data, str) else WSMsgType.BINARY
            try:
                async with asyncio.timeout(self._times.send):
                    await socket.send_frame(data.encode() if isinstance(data, str) else data, kind)
            except TimeoutError:
                self._end("worker", WSCloseCode.POLICY_VIOLATION, b"the worker does not read")
            except (ConnectionError, RuntimeError):
                self._end("worker", WSCloseCode.INTERNAL_ERROR, b"the connection to the worker was lost")

        return send

    # ---- from the worker

    async def _from_worker(self, socket: ClientWebSocketResponse) -> None:
        while True:
            message = await socket.receive()
            if message.type is WSMsgType.TEXT:
                await self._take(message.data)
            elif message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is WSMsgType.CLOSE:
                self._ended_by(closed_by("worker", message.data, message.extra))
                return
            elif message.type not in (WSMsgType.PONG, WSMsgType.BINARY):
                self._end("worker", WSCloseCode.INTERNAL_ERROR, b"the connection to the worker was lost")
                return

    async def _take(self, text: str) -> None:
        """Play an event of sound, and tell the client of any other."""
        if self._speaker is not None:
            event = _read(text)
            if event.type in _SOUND:
                try:
                    await self._speaker.play(base64.b64decode(event.delta))
                except binascii.Error:
                    self._end("worker", WSCloseCode.INVALID_TEXT, b"the worker's sound is not base64")
                return
            if event.type in _INTERRUPTIONS:
                self._speaker.hush()
        await self._tell(text)

    async def _tell(self, text: str) -> None:
        channel = self._channel
        if channel is None:
            self._early.append(text)
            if len(self._early) > MAX_EVENTS:
                self._end("client", WSCloseCode.POLICY_VIOLATION, b"the client opened no channel")
            return
        try:
            channel.send(text)
            if channel.bufferedAmount > MAX_UNSENT_BYTES:
                self._is_drained.clear()
                async with asyncio.timeout(self._times.send):
                    await self._is_drained.wait()
        except TimeoutError:
            self._end("client", WSCloseCode.POLICY_VIOLATION, b"the client does not read")
        except InvalidStateError:
            self._end("client", WSCloseCode.GOING_AWAY, b"the client is gone")

    # ---- the end

    def _end(self, by: str, code: int, reason: bytes) -> None:
        self._ended_by(End(by, code, reason))

    def _ended_by(self, end: End) -> None:
        if not self._ended.done():
            self._ended.set_result(end)


def _read(text: str) -> Event:
    """The type of an event; what is no event has none."""
    try:
        return msgspec.json.decode(text, type=Event)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return Event()
