"""Headers that let browsers of listed origins call the gateway."""

from __future__ import annotations

from collections.abc import Iterable

Headers = tuple[tuple[str, str], ...]

METHODS = "GET,POST,PATCH,DELETE,OPTIONS"
EXPOSED = "x-request-id,traceparent,tracestate"
MAX_AGE_SECS = "3600"
MAX_REQUEST_HEADERS = 1024


class Cors:
    """`origins`: exact origins, or `*` for any; none turns it off."""

    __slots__ = ("_any", "_origins", "is_on")

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        self._any = "*" in self._origins
        self.is_on = bool(self._origins)

    def headers(self, origin: str | None) -> Headers:
        """What an answer to a request of `origin` carries besides."""
        allowed = self._allowed(origin)
        return (*allowed, ("Access-Control-Expose-Headers", EXPOSED)) if allowed else self._vary()

    def preflight(self, origin: str | None, wanted_headers: str | None) -> Headers:
        """Headers of the answer to a preflight request; `wanted_headers` are allowed as asked for."""
        allowed = self._allowed(origin)
        if not allowed:
            return ()
        wanted = wanted_headers or ""
        if not wanted.isascii() or not wanted.isprintable() or len(wanted) > MAX_REQUEST_HEADERS:
            wanted = ""
        return (
            *allowed,
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", wanted or "authorization,content-type"),
            ("Access-Control-Max-Age", MAX_AGE_SECS),
        )

    def _allowed(self, origin: str | None) -> Headers:
        if origin is None:
            return ()
        if self._any:
            return (("Access-Control-Allow-Origin", "*"),)
        if origin in self._origins:
            return (("Access-Control-Allow-Origin", origin), *self._vary())
        return ()

    def _vary(self) -> Headers:
        return (("Vary", "Origin"),) if self._origins and not self._any else ()
