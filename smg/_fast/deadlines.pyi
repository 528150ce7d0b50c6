import asyncio
from typing import final

from typing_extensions import disjoint_base

@disjoint_base
class Timed: ...

@final
class Deadlines:
    seconds: float
    armed: int
    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None: ...
    def close(self) -> None: ...
