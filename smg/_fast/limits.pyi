import asyncio
from typing import final

from smg._fast.deadlines import Deadlines

@final
class Limits:
    header_read: Deadlines
    idle: Deadlines
    body_stall: Deadlines
    linger: Deadlines
    look: Deadlines
    request: Deadlines
    first_byte: Deadlines
    pool_idle: Deadlines
    keepalive_s: float
    between_s: float
    max_payload_bytes: int
    broken_frame: bytes
    timeout_frame: bytes
    loop: asyncio.AbstractEventLoop
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        header_read_s: float,
        idle_s: float,
        body_stall_s: float,
        linger_s: float,
        request_s: float,
        first_byte_s: float,
        pool_idle_s: float,
        keepalive_s: float,
        between_s: float,
        max_payload_bytes: int,
        broken_frame: bytes,
        timeout_frame: bytes,
    ) -> None: ...
    def close(self) -> None: ...

@final
class Spread:
    @staticmethod
    def bounds() -> tuple[float, ...]: ...
    def add(self, seconds: float) -> None: ...
    def row(self) -> list[float]: ...

@final
class Counts:
    connections: int
    accepted: int
    fast: int
    slow: int
    refused: int
    upstreams: int
    connects: int
    client_left: int
    gaps: Spread
    connecting: Spread
