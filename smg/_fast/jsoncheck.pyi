from typing import final

from smg._fast.jsonfound import Found
from smg._fast.jsonshape import Shapes

class Mismatch(ValueError):
    position: int
    def __init__(self, message: str, position: int) -> None: ...

@final
class Checker(Shapes):
    def check(self, text: bytes) -> Found: ...
    def fits(self, text: bytes, start: int, end: int) -> bool: ...
