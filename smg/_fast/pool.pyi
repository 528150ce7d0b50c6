from typing import Self, final

@final
class Pool:
    limit: int
    count: int
    kept: int
    bytes: int
    def __new__(cls, record_bytes: int, limit: int) -> Self: ...
    def clear(self) -> None: ...
