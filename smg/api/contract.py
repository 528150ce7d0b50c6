"""The types of one endpoint's request, ready to check bodies: parse errors, and bounds in their words."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from smg import errors
from smg._fast.jsoncheck import Checker, Mismatch
from smg._fast.jsonfound import Found
from smg._fast.jsonspan import JsonError, elements
from smg.api.shapes import Aliases, Builder, Marks, describe, slots_of

# How a breach is told: the text, where the value begins and ends, the element of the outermost list.
Wording = Callable[[bytes, int, int, int], str]


class Contract:
    """`wordings`: fields whose breaches have words of their own; the others' are told as ranges."""

    def __init__(
        self,
        request: type[msgspec.Struct],
        marks: Marks | None = None,
        aliases: Aliases | None = None,
        wordings: Mapping[str, Wording] | None = None,
        misfit: Callable[[str, bytes, int], errors.GatewayError] = errors.json_mismatch,
    ) -> None:
        described = describe(request)
        builder = Builder(marks or {}, aliases or {})
        builder.add(described)
        self.slots = slots_of(described, aliases or {})
        self._checker = Checker(builder.shapes)
        self._names = {slot: name for name, slot in self.slots.items()}
        self._types = {field.encode_name: field.type for field in described.fields}
        self._wordings = dict(wordings or {})
        self._misfit = misfit

    def bits(self, *names: str) -> int:
        """The mask of some fields' slots."""
        return sum(1 << self.slots[name] for name in names)

    def read(self, body: bytes) -> Found:
        """Check syntax and types; raises the error the client gets."""
        try:
            return self._checker.check(body)
        except JsonError as error:
            raise errors.json_syntax_error(str(error), body, error.position) from None
        except Mismatch as error:
            raise self._misfit(str(error), body, error.position) from None

    def fits(self, text: bytes, start: int, end: int) -> bool:
        """Does a part of a text that is known to be JSON have these types?"""
        return self._checker.fits(text, start, end)

    def problems(self, found: Found) -> list[str]:
        """What is said of the fields that break a bound, by the fields' names."""
        told = []
        for slot, start, end, item in found.breaches():
            name = self._names[slot]
            word = self._wordings.get(name)
            if word is None:
                told.append(f"{name}: {self._range(name, found.text[start:end])}")
            else:
                told.append(f"{name}: {word(found.text, start, end, item)}")
        return told

    def _range(self, name: str, written: bytes) -> str:
        kind = _number_type(self._types[name])
        bounds = {"value": float(written), "min": kind.ge, "max": kind.le}
        show = _show_real if isinstance(kind, inspect.FloatType) else _show_whole
        told = [f'"{key}": Number({show(bound)})' for key, bound in bounds.items() if bound is not None]
        return f"Validation error: range [{{{', '.join(told)}}}]"


def unprocessable(problem: str, body: bytes, position: int) -> errors.GatewayError:
    """The misfit of an endpoint whose clients expect 422 and plain text."""
    message = errors.json_mismatch(problem, body, position).message
    return errors.unprocessable(message.removeprefix("Invalid JSON data: "))


def _number_type(described: inspect.Type) -> inspect.IntType | inspect.FloatType:
    kinds = described.types if isinstance(described, inspect.UnionType) else (described,)
    return next(one for one in kinds if isinstance(one, inspect.IntType | inspect.FloatType))


# ---- numbers as they are shown


def as_single(value: float) -> float:
    """The nearest number of single precision."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return single


def show_single(value: float) -> str:
    """The shortest text that reads as the same number of single precision."""
    single = as_single(value)
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        if as_single(float(text)) == single:
            return text
    return f"{value:.9g}"


def _show_real(value: float) -> str:
    text = show_single(value)
    return text if "." in text or "e" in text or "n" in text else f"{text}.0"


def _show_whole(value: Any) -> str:
    return str(int(value))


# ---- wordings that chat and completions share


def word_top_p(text: bytes, start: int, end: int, item: int) -> str:
    value = float(text[start:end])
    side, limit = ("above maximum", "<= 1.0") if as_single(value) > 1 else ("below minimum", "> 0.0")
    got = show_single(value)
    return f"Invalid 'top_p': decimal {side} value. Expected a value {limit}, but got {got} instead."


def word_top_k(text: bytes, start: int, end: int, item: int) -> str:
    value = text[start:end].decode()
    return f'Validation error: top_k must be -1 (disabled) or at least 1 [{{"value": Number({value})}}]'


def word_stop(text: bytes, start: int, end: int, item: int) -> str:
    if text[start : start + 1] == b"[":
        count = sum(1 for _ in elements(text, start))
        longest = "Expected an array with maximum length 4"
        return f"Invalid 'stop': array too long. {longest}, but got an array with length {count} instead."
    return 'Validation error: stop sequences cannot be empty [{"value": String("")}]'
