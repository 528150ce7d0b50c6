"""JSON that comes in pieces: checked strictly, and passed on without the white space between its tokens.

Numbers and escapes keep their spelling. What is nested too deeply counts as malformed.
"""

from __future__ import annotations

import re

import msgspec

from smg.text.feed import Feed, Sink, Steps, at_once

MAX_DEPTH = 128
MAX_SCALAR_CHARACTERS = 1024
"""Numbers beyond this are nobody's arguments."""

_TOKEN = re.compile(r'[ \t\n\r]*([{}\[\],:"]|[-0-9a-z][-+.0-9A-Za-z]*|\Z)')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_STRING = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_LITERALS = frozenset({"true", "false", "null"})

_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _COMMA = range(6)


def encoded(text: str) -> str:
    """`text` as a JSON string."""
    return msgspec.json.encode(text).decode()


def decoded(text: str) -> str | None:
    """The text that a JSON string stands for; half a surrogate pair stands for none."""
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return None


def compact(text: str) -> str | None:
    """A whole JSON text without white space, or `None` if it is none."""
    feed = Feed.of(text)
    pieces: list[str] = []
    good = at_once(JsonReader(feed).value(pieces.append)) and not at_once(feed.blank())
    return "".join(pieces) if good else None


class JsonReader:
    """Reads a feed. A token that is not expected is left unread, so that it can be read as something else."""

    __slots__ = ("_feed",)

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def token(self) -> Steps[str]:
        """A bracket, comma, colon, number, word or opening quote; empty: the end, or none of these."""
        feed = self._feed
        while True:
            found = _TOKEN.match(feed.text, feed.at)
            if found is None:
                return ""
            token = found[1]
            if len(token) > MAX_SCALAR_CHARACTERS:
                return ""
            if found.end() < len(feed.text) or feed.ended or (token and token in '{}[],:"'):
                feed.at = found.end()
                return token
            feed.at = found.start(1)
            yield

    def unread(self, token: str) -> None:
        self._feed.at -= len(token)

    def takes(self, wanted: str) -> Steps[bool]:
        """Whether the next token is this one; another is left unread."""
        token = yield from self.token()
        if token != wanted:
            self.unread(token)
        return token == wanted

    def string(self, sink: Sink) -> Steps[bool]:
        """What follows an opening quote, with the closing quote."""
        feed = self._feed
        while True:
            found = _STRING.match(feed.text, feed.at)
            stop = found.end() if found else feed.at
            if feed.text.startswith('"', stop):
                sink(feed.text[feed.at : stop + 1])
                feed.at = stop + 1
                return True
            if stop > feed.at:
                sink(feed.text[feed.at : stop])
                feed.at = stop
            if feed.ended or (stop < len(feed.text) and not _ESCAPE_BEGUN.match(feed.text, stop)):
                return False
            yield

    def text(self) -> Steps[str | None]:
        """The text of a string whose opening quote is passed."""
        pieces = ['"']
        if not (yield from self.string(pieces.append)):
            return None
        return decoded("".join(pieces))

    def value(self, sink: Sink) -> Steps[bool]:
        """One value of any kind; `False` if what comes is none."""
        closers: list[str] = []
        want = _VALUE
        while True:
            token = yield from self.token()
            if token == '"' and want <= _KEY_OR_END:
                sink('"')
                if not (yield from self.string(sink)):
                    return False
                want = _COLON if want in (_KEY, _KEY_OR_END) else _COMMA
            else:
                want = _next(token, want, closers)
                if want < 0:
                    self.unread(token)
                    return False
                sink(token)
            if want == _COMMA and not closers:
                return True


def _next(token: str, want: int, closers: list[str]) -> int:
    """What is wanted after a token that is no string; negative: the token is not allowed here."""
    if want == _COMMA:
        if token == ",":
            return _KEY if closers[-1] == "}" else _VALUE
        if token == closers[-1]:
            closers.pop()
            return _COMMA
        return -1
    if want == _COLON:
        return _VALUE if token == ":" else -1
    if (token == "}" and want == _KEY_OR_END) or (token == "]" and want == _VALUE_OR_END):
        closers.pop()
        return _COMMA
    if want in (_KEY, _KEY_OR_END):
        return -1
    if token in ("{", "["):
        if len(closers) == MAX_DEPTH:
            return -1
        closers.append("}" if token == "{" else "]")
        return _KEY_OR_END if token == "{" else _VALUE_OR_END
    if token in _LITERALS or (token and _NUMBER.fullmatch(token)):
        return _COMMA
    return -1
