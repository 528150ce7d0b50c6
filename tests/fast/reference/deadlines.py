"""Deadlines of one length as a plain list, with the time given."""

from __future__ import annotations


class DeadlineList:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: list[tuple[float, str]] = []

    @property
    def names(self) -> list[str]:
        return [name for _, name in self._due]

    def arm(self, name: str, now: float) -> None:
        self.disarm(name)
        if self._seconds > 0:
            self._due.append((now + self._seconds, name))

    def disarm(self, name: str) -> None:
        self._due = [one for one in self._due if one[1] != name]

    def expire(self, now: float) -> list[str]:
        """Those that are due, in order of arming; they no longer wait."""
        expired = [name for due, name in self._due if due <= now]
        self._due = [one for one in self._due if one[0] > now]
        return expired
