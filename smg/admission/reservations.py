"""How many slots each priority class keeps free from the classes below it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smg.config.side_files import ClassOptions


def reservations(classes: Sequence[ClassOptions], capacity: int) -> list[int]:
    """Slots of each class, the highest first, for so many in all.

    A class asks for the larger of its floor and its share, and for no more than there is. When all together
    ask for more, they are cut in proportion, so that one slot is left to everybody; what rounding leaves
    over goes to the lowest classes.
    """
    asked = [
        min(capacity, max(one.reserved_floor, math.ceil(one.reserved_per_slot * capacity))) for one in classes
    ]
    total = sum(asked)
    if total <= capacity:
        return asked
    given = [one * (capacity - 1) // total for one in asked]
    left = capacity - 1 - sum(given)
    for rank in reversed(range(len(asked))):
        if left and given[rank] < asked[rank]:
            given[rank] += 1
            left -= 1
    return given
