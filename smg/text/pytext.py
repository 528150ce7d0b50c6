"""Python literals as models write them, turned into JSON; calls with keyword arguments among them.

Not `ast`: it would warn of odd escapes, to whoever is warned in this process, and has no limits of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from smg.text.feed import Feed, Marks, Sink, Steps
from smg.text.jsontext import encoded

MAX_DEPTH = 64

_CLOSING = {"[": "]", "(": ")", "{": "}"}
_BRACKETS = Marks(*"[](){}'\"")
_QUOTED = {quote: Marks(quote, "\\") for quote in ("'", '"', "'''", '"""')}

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>(?P<prefix>[rRbBuU]?)(?:
        '''(?P<a>(?:[^'\\]++|\\.|'(?!''))*+)'''
        |"{3}(?P<b>(?:[^"\\]++|\\.|"(?!""))*+)"{3}
        |'(?P<c>(?:[^'\\\n]++|\\.)*+)'
        |"(?P<d>(?:[^"\\\n]++|\\.)*+)"))
    |(?P<number>[-+]?(?:0[xXoObB][0-9A-Fa-f_]+|(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)(?![\w.]))
    |(?P<name>[^\W\d]\w*)
    |(?P<mark>[][(){},:=])
    )""",
    re.X | re.S,
)
_NUMBER = re.compile(r"([-+]?)(0|[1-9][0-9]*)?(\.?)([0-9]*)((?:[eE][-+]?[0-9]+)?)")
_CONSTANTS = {"True": "true", "False": "false", "None": "null"} | {w: w for w in ("true", "false", "null")}
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "\n": ""}
_ESCAPES |= {"\\": "\\", "'": "'", '"': '"'}


def bracketed(feed: Feed, opening: str, sink: Sink) -> Steps[bool]:
    """What follows an opening bracket, to the one that closes it; `False` if brackets do not match."""
    closers = [_CLOSING[opening]]
    while mark := (yield from feed.until(_BRACKETS, sink)):
        sink(mark)
        if mark in _CLOSING:
            closers.append(_CLOSING[mark])
        elif mark in "'\"":
            if not (yield from _quoted(feed, mark, sink)):
                return False
        elif mark != closers.pop():
            return False
        if not closers:
            return True
        if len(closers) > MAX_DEPTH:
            return False
    return False


def _quoted(feed: Feed, quote: str, sink: Sink) -> Steps[bool]:
    """What follows an opening quote, to the closing one."""
    if (yield from feed.starts(quote * 2)):
        sink(quote * 2)
        quote *= 3
    while mark := (yield from feed.until(_QUOTED[quote], sink)):
        sink(mark)
        if mark == quote:
            return True
        yield from _one(feed, sink)
    return False


def _one(feed: Feed, sink: Sink) -> Steps[None]:
    """A character, whatever it is."""
    while feed.at == len(feed.text) and not feed.ended:
        yield
    sink(feed.text[feed.at : feed.at + 1])
    feed.at += len(feed.text[feed.at : feed.at + 1])


class Tokens:
    """The tokens of a text that is all there. `ValueError` where none is, or another than is expected."""

    def __init__(self, text: str) -> None:
        self._found = self._scan(text.strip())
        self.now = next(self._found, None)

    @staticmethod
    def _scan(text: str) -> Iterator[re.Match[str]]:
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError("no Python literal")
            yield found
            at = found.end()

    def next(self, kind: str) -> str:
        """The token that comes, which must be of this kind, a group of the grammar above."""
        if self.now is None or self.now[kind] is None:
            raise ValueError("no Python literal")
        token = self.now[kind]
        self.now = next(self._found, None)
        return token

    def takes(self, mark: str) -> bool:
        if self.now is None or self.now["mark"] != mark:
            return False
        self.next("mark")
        return True

    def end(self) -> None:
        if self.now is not None:
            raise ValueError("more than a Python literal")


def call(tokens: Tokens) -> tuple[str, str]:
    """A call's name and its keyword arguments, as an object."""
    name = tokens.next("name")
    if not tokens.takes("("):
        raise ValueError("no call")
    seen: set[str] = set()

    def argument() -> str:
        key = tokens.next("name")
        if key in seen or not tokens.takes("="):
            raise ValueError("no keyword argument")
        seen.add(key)
        return f"{encoded(key)}:{value(tokens)}"

    return name, "{" + ",".join(listed(tokens, ")", argument)) + "}"


def listed(tokens: Tokens, closer: str, item: Callable[[], str]) -> Iterator[str]:
    """What stands up to a closing bracket, with commas between."""
    while not tokens.takes(closer):
        yield item()
        if not tokens.takes(","):
            if not tokens.takes(closer):
                raise ValueError("no comma")
            return


def value(tokens: Tokens) -> str:
    """The JSON of a literal. A bare word is a string. The nesting is what `bracketed` let pass."""
    found = tokens.now
    if found is None:
        raise ValueError("no value")
    if found["string"] is not None:
        return encoded(_strings(tokens))
    if found["number"] is not None:
        return _number(tokens.next("number"))
    if found["name"] is not None:
        word = tokens.next("name")
        return _CONSTANTS.get(word) or encoded(word)
    if tokens.takes("{"):
        return "{" + ",".join(listed(tokens, "}", lambda: _pair(tokens))) + "}"
    opening = tokens.next("mark")
    if opening not in ("[", "("):
        raise ValueError("no value")
    return "[" + ",".join(listed(tokens, _CLOSING[opening], lambda: value(tokens))) + "]"


def _pair(tokens: Tokens) -> str:
    key = value(tokens)
    if key[0] in "{[" or not tokens.takes(":"):
        raise ValueError("no key")
    return f"{key if key[0] == chr(34) else encoded(key)}:{value(tokens)}"


def _strings(tokens: Tokens) -> str:
    """The text of one string or of several in a row."""
    parts = []
    while tokens.now is not None and tokens.now["string"] is not None:
        inside = next(text for text in tokens.now.group("a", "b", "c", "d") if text is not None)
        parts.append(inside if tokens.now["prefix"] in ("r", "R") else _ESCAPE.sub(_unescaped, inside))
        tokens.next("string")
    # Half a surrogate pair cannot be sent; two halves are one character.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    octal, byte, short, long, other = found.groups()
    if other is not None:
        return _ESCAPES.get(other, found[0])
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    return chr(code) if code <= 0x10FFFF else found[0]


def _number(text: str) -> str:
    text = text.replace("_", "")
    if text.lstrip("+-")[1:2].isalpha() and text.lstrip("+-")[0] == "0" and text.lstrip("+-")[1] not in "eE":
        return str(int(text, 0))
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError("no number")
    sign, digits, point, fraction, exponent = found.groups()
    return f"{sign.strip('+')}{digits or '0'}{point}{fraction or ('0' if point else '')}{exponent}"
