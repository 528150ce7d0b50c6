from collections.abc import Mapping, Sequence

from typing_extensions import disjoint_base

NULL_KIND: int
BOOL_KIND: int
INTEGER_KIND: int
REAL_KIND: int
TEXT_KIND: int
LIST_KIND: int
OBJECT_KIND: int
ANY_KIND: int

@disjoint_base
class Shapes:
    def __init__(self, shapes: Sequence[Mapping[str, object]]) -> None: ...
