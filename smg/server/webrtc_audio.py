"""Sound between a WebRTC call and a realtime session: tracks on one side, PCM in events on the other."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from fractions import Fraction

import msgspec
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from av import AudioFrame, AudioResampler

FRAME_S = 0.02
SAMPLE_BYTES = 2
MAX_AHEAD_S = 120
"""How much sound is held that has not been played yet; then the worker is read no further."""


class Speaker(MediaStreamTrack):
    """Plays the worker's sound: PCM of 16 bits, one channel, `rate` samples a second. Silence when there is
    none, so that the client's clock goes on."""

    kind = "audio"

    def __init__(self, rate: int) -> None:
        super().__init__()
        self._rate = rate
        self._size = int(rate * FRAME_S) * SAMPLE_BYTES
        self._ahead = bytearray()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._begun = 0.0
        self._frames = 0

    async def play(self, pcm: bytes) -> None:
        """Add sound to what is played; waits while enough is held."""
        await self._has_room.wait()
        self._ahead += pcm
        if len(self._ahead) > MAX_AHEAD_S * self._rate * SAMPLE_BYTES:
            self._has_room.clear()

    def hush(self) -> None:
        """Forget what has not been played: the user speaks."""
        self._ahead.clear()
        self._has_room.set()

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        await self._pace()
        data = bytes(self._ahead[: self._size])
        del self._ahead[: self._size]
        if len(self._ahead) <= MAX_AHEAD_S * self._rate * SAMPLE_BYTES // 2:
            self._has_room.set()
        frame = AudioFrame(format="s16", layout="mono", samples=self._size // SAMPLE_BYTES)
        frame.planes[0].update(data.ljust(frame.planes[0].buffer_size, b"\0"))
        frame.sample_rate = self._rate
        frame.time_base = Fraction(1, self._rate)
        frame.pts = self._frames * (self._size // SAMPLE_BYTES)
        self._frames += 1
        return frame

    async def _pace(self) -> None:
        """Wait until the next frame is due."""
        if not self._begun:
            self._begun = time.monotonic()
        await asyncio.sleep(max(0.0, self._begun + self._frames * FRAME_S - time.monotonic()))


async def listen(track: MediaStreamTrack, rate: int, send: Callable[[str], Awaitable[None]]) -> None:
    """Send what a track of the client says, as events, until it ends."""
    resampler = AudioResampler(format="s16", layout="mono", rate=rate)
    while True:
        try:
            frame = await track.recv()
        except MediaStreamError:
            return
        assert isinstance(frame, AudioFrame)
        for one in resampler.resample(frame):
            pcm = bytes(one.planes[0])[: one.samples * SAMPLE_BYTES]
            event = {"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()}
            await send(msgspec.json.encode(event).decode())
