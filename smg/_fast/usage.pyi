from typing import final

def guess_tokens(body: bytes, spans: bytes | None) -> int: ...

@final
class UsageMeter:
    prompt: int
    completion: int
    total: int
    cache_read: int
    cache_written: int
    events: int
    def feed(self, data: bytes) -> None: ...
    def clear(self) -> None: ...
    @property
    def tokens(self) -> int: ...
