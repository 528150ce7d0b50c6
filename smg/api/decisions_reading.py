"""A body of Decisions checked piece by piece, so that no step keeps other threads waiting.

A small piece is decoded as it is. Of a larger one the members are looked at, of a list the elements, and of a
long string how it is written. What is found does not depend on how large a piece may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec

from smg._fast.jsonspan import Members, elements, members_at, text_of
from smg._fast.jsontext import characters, has_edges, is_blank
from smg.api.decisions_findings import INPUT, OWN, QUESTIONS, Findings
from smg.api.decisions_schema import (
    LISTS,
    MAX_EVIDENCE,
    MAX_IDENTIFIER,
    MAX_TEXT,
    PLACES,
    Choice,
    Choose,
    ImagePart,
    Kind,
    Level,
    Message,
    Predicate,
    Request,
    Score,
    TextPart,
)
from smg.api.pairs import Pairs, read_objects, read_pairs

PIECE = 4 * 1024
"""Bytes that are decoded in one step: less than a millisecond."""

_SECTIONS = {"input": INPUT, "questions": QUESTIONS}
_LONGEST_SCALAR = 1024
_LONGEST_SHOWN = 64
_IMAGE = (b"data:image/", b";base64")

Span = tuple[int, int]


class Misfit(Exception):
    """The body does not fit the schema: what is wrong, and where, as in `.input[0].role`."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__(what, path)
        self.what = what
        self.path = path


class Group:
    """What an element of a list may be, or the request itself."""

    def __init__(self, *kinds: Kind) -> None:
        union: Any = kinds[0]
        for kind in kinds[1:]:
            union = union | kind
        self.tag = kinds[0].__struct_config__.tag_field
        self.kinds = {kind.__struct_config__.tag: kind for kind in kinds}
        self.one = msgspec.json.Decoder(union)
        self.several = msgspec.json.Decoder(list[union])


REQUEST = Group(Request)
QUESTION = Group(Predicate, Choose, Score)
_ITEMS: dict[tuple[Kind, str], Group] = {
    (Request, "input"): Group(Message),
    (Request, "questions"): QUESTION,
    (Message, "content"): Group(TextPart, ImagePart),
    (Choose, "choices"): Group(Choice),
    (Score, "levels"): Group(Level),
}


def _names(kind: Kind) -> tuple[str, ...]:
    tag = kind.__struct_config__.tag_field
    return (*kind.__struct_encode_fields__, tag) if tag else kind.__struct_encode_fields__


NAMES = {kind: _names(kind) for kind in PLACES}
_KNOWN = {kind: frozenset(names) for kind, names in NAMES.items()}
WRITTEN_NAMES = {kind: tuple(name.encode() for name in names) for kind, names in NAMES.items()}
_REQUIRED = {kind: tuple(one.name for one in msgspec.structs.fields(kind) if one.required) for kind in PLACES}
_FIELDS: dict[tuple[Kind, str], msgspec.json.Decoder[Any]] = {
    (kind, name): msgspec.json.Decoder(described)
    for kind in PLACES
    for name, described in get_type_hints(kind).items()
    if name in kind.__struct_encode_fields__
}


def read(text: bytes, start: int, end: int, piece: int = PIECE) -> Findings:
    """Check the object at a span of a text that is known to be JSON. Raises `Misfit`."""
    reader = _Reader(text, piece)
    reader.read(REQUEST, start, end, OWN, 0)
    return reader.found


class _Reader:
    def __init__(self, text: bytes, piece: int) -> None:
        self.found = Findings()
        self._text = text
        self._view = memoryview(text)
        self._piece = piece

    def read(self, group: Group, start: int, end: int, section: int, index: int) -> None:
        """Check an object; `index`: the question's."""
        if end - start > self._piece:
            self._read_large(group, start, end, section, index)
            return
        one = _decoded(group.one, self._view[start:end])
        self._mark(one, read_pairs(self._text[start:end]), section)
        self.found.note(one, index)

    def _read_list(self, group: Group, start: int, section: int) -> int:
        """Check the objects of a list, small ones together; how many there are."""
        count = first = 0
        begin = ended = -1
        for place, end in elements(self._text, start):
            if begin >= 0 and end - begin > self._piece:
                self._read_several(group, begin, ended, section, first)
                begin = -1
            if end - place > self._piece:
                try:
                    self._read_large(group, place, end, section, count)
                except Misfit as misfit:
                    misfit.path = f"[{count}]{misfit.path}"
                    raise
            elif begin < 0:
                begin, first = place, count
            ended = end
            count += 1
        if begin >= 0:
            self._read_several(group, begin, ended, section, first)
        return count

    def _read_several(self, group: Group, start: int, end: int, section: int, first: int) -> None:
        written = b"[%b]" % self._text[start:end]
        try:
            several = _decoded(group.several, written)
        except Misfit as misfit:
            number, _, rest = misfit.path[1:].partition("]")
            misfit.path = f"[{first + int(number)}]{rest}"
            raise
        for index, (one, pairs) in enumerate(zip(several, read_objects(written), strict=True), first):
            self._mark(one, pairs, section)
            self.found.note(one, index)

    # ---- a large object

    def _read_large(self, group: Group, start: int, end: int, section: int, index: int) -> None:
        found = self.found
        if self._text[start] != ord("{"):
            _decoded(group.one, self._scalar(start, end))
        object_ = members_at(self._text, start)
        kind = self._kind_of(group, object_)
        names, given = NAMES[kind], _Given(self._text)
        marks, repeated, extension = found.marks(section), None, None
        for number, begin, ended in object_.known(WRITTEN_NAMES[kind]):
            if number < 0:
                extension = (self._name(begin, ended), PLACES[kind]) if kind is not ImagePart else None
                continue
            name = names[number]
            if name in given.spans:
                repeated = repeated or name
            given.spans[name] = begin, ended
            try:
                given.counts[name] = self._read_field(group, kind, name, begin, ended, section)
            except Misfit as misfit:
                misfit.path = f".{name}{misfit.path}"
                raise
        for name in _REQUIRED[kind]:
            if name not in given.spans:
                raise Misfit(f"Object missing required field `{name}`", "")
        inner = found.marks(section)
        found.restore(section, marks)
        found.mark(section, repeated, extension)
        found.mark(section, *inner)
        self._note_large(kind, given, index)

    def _kind_of(self, group: Group, found: Members) -> Kind:
        if group.tag is None:
            return next(iter(group.kinds.values()))
        for number, start, end in found.known((group.tag.encode(),)):
            if number == 0:
                written = self._scalar(start, end)
                _check_tag(group, written)
                return group.kinds[msgspec.json.decode(written, type=str)]
        raise Misfit(f"Object missing required field `{group.tag}`", "")

    def _read_field(self, group: Group, kind: Kind, name: str, start: int, end: int, section: int) -> int:
        """Check a field's value; how many elements it has if it is a list of objects."""
        items = _ITEMS.get((kind, name))
        if items is not None and self._text[start] == ord("["):
            return self._read_list(items, start, _SECTIONS[name] if kind is Request else section)
        written = self._scalar(start, end)
        if name == group.tag:
            _check_tag(group, written, str(kind.__struct_config__.tag))
            return 0
        try:
            _FIELDS[kind, name].decode(written)
        except msgspec.DecodeError as error:
            raise Misfit(str(error), "") from None
        return 0

    def _scalar(self, start: int, end: int) -> bytes:
        """A value as written, or if it is long one of the same type that is as good or as bad."""
        text = self._text
        if end - start <= _LONGEST_SCALAR:
            return text[start:end]
        opening = text[start : start + 1]
        if opening == b'"':
            shown = text[start + 1 : start + _LONGEST_SHOWN].partition(b"\\")[0]
            return f'"{shown.decode(errors="ignore")}…"'.encode()
        if opening in b"[{":
            return b"[]" if opening == b"[" else b"{}"
        return b"1.5"  # an integer of so many digits would have been out of range

    def _name(self, start: int, end: int) -> str:
        """An unknown member's name, cut when it is long."""
        if end - start <= PIECE:
            return text_of(self._text, start, end).decode()
        return self._text[start + 1 : start + _LONGEST_SHOWN].decode(errors="replace") + "…"

    # ---- members

    def _mark(self, one: msgspec.Struct, written: Pairs, section: int) -> None:
        """Note a known member that is given twice, and one that no schema knows."""
        for kind, given in _objects(one, written):
            known = _KNOWN[kind]
            names = [name for name, _ in given]
            if known.issuperset(names) and len(set(names)) == len(names):
                continue
            seen = set()
            for name in names:
                if name not in known:
                    if kind is not ImagePart:
                        self.found.mark(section, None, (name, PLACES[kind]))
                elif name in seen:
                    self.found.mark(section, name, None)
                    return
                seen.add(name)

    # ---- what is found

    def _note_large(self, kind: Kind, given: _Given, index: int) -> None:
        found = self.found
        if kind is TextPart:
            if given.is_longer("text", MAX_EVIDENCE):
                found.exceeds("input", MAX_EVIDENCE)
            self._see_large_text(given, "text")
        elif kind is ImagePart:
            found.image(has_edges(self._text, *given.spans["image_url"], *_IMAGE, ord(",")))
        elif kind is Message:
            self._see_large_text(given, "content")
        elif kind is Request:
            self._see_large_text(given, "input")
            given.limit(found, "model", MAX_TEXT, "model")
            given.limit(found, "safety_identifier", MAX_IDENTIFIER, "safety_identifier")
        else:
            given.limit(found, "questions", MAX_TEXT, "instructions", "name", "label", "description")
            if kind not in (Choice, Level):
                blank = is_blank(self._text, *given.spans["instructions"])
                found.count_question(kind, index, blank, sum(given.counts.values()))

    def _see_large_text(self, given: _Given, name: str) -> None:
        if not self.found.has_text and given.is_text(name):
            self.found.has_text = not is_blank(self._text, *given.spans[name])


class _Given:
    """The fields of a large object by their names: where the values stand, and how long lists are."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.spans: dict[str, Span] = {}
        self.counts: dict[str, int] = {}

    def is_text(self, name: str) -> bool:
        return name in self.spans and self._text[self.spans[name][0]] == ord('"')

    def is_longer(self, name: str, limit: int) -> bool:
        """Is the field a string of more characters?"""
        if not self.is_text(name):
            return False
        start, end = self.spans[name]
        return end - start - 2 > limit and characters(self._text, start, end) > limit

    def limit(self, found: Findings, field: str, limit: int, *names: str) -> None:
        if any(self.is_longer(name, limit) for name in names):
            found.exceeds(field, limit)


def _decoded(decoder: msgspec.json.Decoder[Any], written: bytes | memoryview) -> Any:
    try:
        return decoder.decode(written)
    except msgspec.DecodeError as error:
        # What is quoted may look like a path as well.
        what, mark, path = str(error).rpartition(" - at `$")
        raise (Misfit(what, path.removesuffix("`")) if mark else Misfit(path, "")) from None


def _check_tag(group: Group, written: bytes, first: str | None = None) -> None:
    """Check a tag of an object whose first one was `first`."""
    before = b'"%b":"%b",' % (group.tag.encode(), first.encode()) if first is not None and group.tag else b""
    try:
        _decoded(group.one, b'{%b"%b":%b}' % (before, (group.tag or "").encode(), written))
    except Misfit as misfit:
        if misfit.path:
            raise Misfit(misfit.what, "." + (group.tag or "") if first is None else "") from None


def _objects(one: msgspec.Struct, written: Pairs) -> Iterator[tuple[Kind, Pairs]]:
    """An object and all inside it beside what was written for them, in the request's order."""
    yield type(one), written
    for name in LISTS.get(type(one), ()):
        items = getattr(one, name)
        if not isinstance(items, str):
            for item, text in zip(items, written.items_of(name), strict=True):
                yield from _objects(item, text)
