from typing import Self, final

from _typeshed import ReadableBuffer

@final
class Opened:
    def __new__(cls, body: ReadableBuffer, spans: ReadableBuffer) -> Self: ...

def block_ends(size: int) -> list[int]: ...
