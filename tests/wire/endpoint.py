"""What both ends of a raw connection can do in tests."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any


class Endpoint(asyncio.Protocol):
    """A connection whose `transport` is told when to end and when to read."""

    transport: Any = None

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """End with RST."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def stop_reading(self) -> None:
        self.transport.pause_reading()

    def read_on(self) -> None:
        self.transport.resume_reading()
