"""JSON texts as clients may write them: any white space, escapes anywhere, members given twice."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Pairs = list[tuple[str, Any]]

# Objects are written from lists of pairs, wrapped so that they are no arrays.
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
)
names = st.sampled_from(["a", "b", "type", "é", "\n", '"', "\\", "tools", "text"]) | st.text(
    st.characters(exclude_categories=("Cs",)), max_size=6
)


class Object(tuple[tuple[str, Any], ...]):
    """An object's members in order, repeated ones included."""


def objects_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.lists(st.tuples(names, values), max_size=4).map(Object)


values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | objects_of(inner), max_leaves=12)
blanks = st.text(" \n\t\r", max_size=2)


def write_string(draw: st.DrawFn, text: str) -> str:
    """A string, each character perhaps written as an escape."""
    if draw(st.booleans()):
        return json.dumps(text, ensure_ascii=draw(st.booleans()))
    written = json.dumps(text)
    if text and text[0].isascii() and text[0].isalnum():
        written = f'"\\u{ord(text[0]):04x}' + json.dumps(text[1:])[1:]
    return written


def write(draw: st.DrawFn, value: Any) -> str:
    def gap() -> str:
        return draw(blanks)

    if isinstance(value, Object):
        members = [
            f"{gap()}{write_string(draw, name)}{gap()}:{gap()}{write(draw, one)}{gap()}"
            for name, one in value
        ]
        return "{" + (",".join(members) or gap()) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{gap()}{write(draw, one)}{gap()}" for one in value) or gap()) + "]"
    if isinstance(value, str):
        return write_string(draw, value)
    return json.dumps(value)


@st.composite
def texts(draw: st.DrawFn, source: st.SearchStrategy[Any] = values) -> tuple[Any, bytes]:
    """A value beside a text that means it."""
    value = draw(source)
    return value, (draw(blanks) + write(draw, value) + draw(blanks)).encode()


def read(text: bytes) -> Any:
    """The value a text means, objects as `Object`."""
    return json.loads(text, object_pairs_hook=Object)
