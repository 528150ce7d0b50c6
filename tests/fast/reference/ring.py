"""A consistent-hash ring as a list that is sorted anew whenever it is asked."""

from __future__ import annotations

from collections.abc import Container

from xxhash import xxh3_64_intdigest

POINTS = 150


class RingModel:
    def __init__(self) -> None:
        self.urls: dict[int, str] = {}

    def pick(self, place: int, allowed: Container[int] | None = None) -> int:
        points = sorted(
            (xxh3_64_intdigest(f"{url}#{number}".encode()), worker)
            for worker, url in self.urls.items()
            for number in range(POINTS)
        )
        clockwise = [point for point in points if point[0] >= place] + points
        return next((worker for _, worker in clockwise if allowed is None or worker in allowed), -1)
