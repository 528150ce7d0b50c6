"""Turns msgspec types into the plain descriptions that the compiled checker reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec
from msgspec import inspect

from smg._fast import jsonshape

# A member (Struct, name) or a whole Struct (Struct, None) to a mark, a bit, and for a member also the one
# value, as written, that the mark is for, or None.
Marks = Mapping[tuple[type[msgspec.Struct], str | None], tuple[int, bytes | None]]
# A member (Struct, name) to the name of the member that it is another spelling of.
Aliases = Mapping[tuple[type[msgspec.Struct], str], str]


class Shape(TypedDict):
    """What a value may be. Other shapes are named by their index in the list, -1 for any value.

    members: (name, slot, shape, required, mark or 0, the written value the mark is for or None);
    variants: (tag's value, shape); choices: the texts allowed; width: 1 signed, 2 unsigned 64 bits;
    full_text, full_list: not empty.
    """

    kinds: int
    members: list[tuple[bytes, int, int, bool, int, bytes | None]]
    variants: list[tuple[bytes, int]]
    choices: list[bytes]
    tag: bytes | None
    items: int
    values: int
    mark: int
    low: float | None
    high: float | None
    open_low: bool
    full_text: bool
    full_list: bool
    longest: int
    width: int


_WIDTHS = {"int64": 1, "uint64": 2}


class Builder:
    """Collects the shapes of one type; the type's own is the first."""

    def __init__(self, marks: Marks, aliases: Aliases) -> None:
        self.shapes: list[Shape] = []
        self._marks = marks
        self._aliases = aliases

    def add(self, described: inspect.Type) -> int:
        """Describe a type; gives the index of its shape."""
        shape = _nothing()
        self.shapes.append(shape)
        index = len(self.shapes) - 1
        for one in described.types if isinstance(described, inspect.UnionType) else (described,):
            self._merge(shape, one)
        return index

    def _merge(self, shape: Shape, one: inspect.Type) -> None:
        """Let the shape also be what `one` is."""
        if isinstance(one, inspect.Metadata):
            width = (one.extra_json_schema or {}).get("format")
            shape["width"] = _WIDTHS.get(width, 0) if isinstance(width, str) else 0
            one = one.type
        if isinstance(one, inspect.StructType):
            self._merge_struct(shape, one)
        elif isinstance(one, inspect.ListType):
            shape["kinds"] |= jsonshape.LIST_KIND
            shape["items"] = self._child(one.item_type)
            shape["full_list"] = bool(one.min_length)
            shape["longest"] = -1 if one.max_length is None else one.max_length
        elif isinstance(one, inspect.DictType):
            shape["kinds"] |= jsonshape.OBJECT_KIND
            shape["values"] = self._child(one.value_type)
        else:
            _merge_scalar(shape, one)

    def _child(self, described: inspect.Type) -> int:
        return -1 if isinstance(described, inspect.AnyType) else self.add(described)

    def _merge_struct(self, shape: Shape, one: inspect.StructType) -> None:
        shape["kinds"] |= jsonshape.OBJECT_KIND
        if one.tag_field is None:
            self._fill(shape, one)
            return
        variant = _nothing()
        variant["kinds"] = jsonshape.OBJECT_KIND
        self.shapes.append(variant)
        shape["tag"] = one.tag_field.encode()
        shape["variants"].append((str(one.tag).encode(), len(self.shapes) - 1))
        self._fill(variant, one)

    def _fill(self, shape: Shape, one: inspect.StructType) -> None:
        """Give the shape the Struct's members; a tag is a member as well."""
        shape["mark"] = self._marks.get((one.cls, None), (0, None))[0]
        slots = slots_of(one, self._aliases)
        if one.tag_field is not None:
            text = self.add(inspect.StrType())
            shape["members"].append((one.tag_field.encode(), slots[one.tag_field], text, True, 0, None))
        for field in one.fields:
            name = field.encode_name
            mark, written = self._marks.get((one.cls, name), (0, None))
            child = self.add(field.type)
            shape["members"].append((name.encode(), slots[name], child, field.required, mark, written))


def slots_of(one: inspect.StructType, aliases: Aliases) -> dict[str, int]:
    """The slot of each member; another spelling of a member shares its slot."""
    names = [one.tag_field] if one.tag_field is not None else []
    names += [field.encode_name for field in one.fields if (one.cls, field.encode_name) not in aliases]
    slots = {name: slot for slot, name in enumerate(names)}
    for field in one.fields:
        if (one.cls, field.encode_name) in aliases:
            slots[field.encode_name] = slots[aliases[one.cls, field.encode_name]]
    return slots


def _merge_scalar(shape: Shape, one: inspect.Type) -> None:
    if isinstance(one, inspect.AnyType):
        shape["kinds"] |= jsonshape.ANY_KIND
    elif isinstance(one, inspect.NoneType):
        shape["kinds"] |= jsonshape.NULL_KIND
    elif isinstance(one, inspect.BoolType):
        shape["kinds"] |= jsonshape.BOOL_KIND
    elif isinstance(one, inspect.StrType):
        shape["kinds"] |= jsonshape.TEXT_KIND
        shape["full_text"] = bool(one.min_length)
    elif isinstance(one, inspect.LiteralType):
        shape["kinds"] |= jsonshape.TEXT_KIND
        shape["choices"] = [str(value).encode() for value in one.values]
    elif isinstance(one, inspect.IntType | inspect.FloatType):
        whole = isinstance(one, inspect.IntType)
        shape["kinds"] |= jsonshape.INTEGER_KIND | (0 if whole else jsonshape.REAL_KIND)
        shape["open_low"] = one.gt is not None
        shape["low"] = one.gt if one.gt is not None else one.ge
        shape["high"] = one.le
    else:
        raise TypeError(f"no shape for {one!r}")


def _nothing() -> Shape:
    return {
        "kinds": 0,
        "members": [],
        "variants": [],
        "choices": [],
        "tag": None,
        "items": -1,
        "values": -1,
        "mark": 0,
        "low": None,
        "high": None,
        "open_low": False,
        "full_text": False,
        "full_list": False,
        "longest": -1,
        "width": 0,
    }


def describe(model: type[Any]) -> inspect.StructType:
    described = inspect.type_info(model)
    assert isinstance(described, inspect.StructType)
    return described
