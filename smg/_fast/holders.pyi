from typing import Self, final

@final
class Holders:
    def __new__(cls, limit_bytes: int) -> Self: ...
