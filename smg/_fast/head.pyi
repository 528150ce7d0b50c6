from typing import final

MAX_HEAD_BYTES: int
MAX_HEADERS: int

class HeadError(ValueError):
    status: int
    def __init__(self, status: int, message: str) -> None: ...

@final
class RequestHead:
    raw: bytes
    method: bytes
    path: bytes
    query: bytes | None
    minor: int
    content_length: int
    chunked: bool
    keep_alive: bool
    expects_continue: bool
    upgrade: bool
    forward: bytes
    def get(self, name: bytes) -> bytes | None: ...
    def first_of(self, names: tuple[bytes, ...]) -> bytes | None: ...
    def items(self) -> list[tuple[bytes, bytes]]: ...

@final
class ResponseHead:
    status: int
    minor: int
    reason: bytes
    lines: bytes
    content_length: int
    chunked: bool
    keep_alive: bool
    event_stream: bool

def read_request_head(data: bytes) -> RequestHead: ...
def read_response_head(data: bytes) -> ResponseHead: ...
