"""Turns what a user wrote (words of a flag or environment variable, YAML values) into a field's value.

Every function raises `ValueError` with the end of a sentence, such as `needs an integer from 0 to 9,
not 'x'`. Values of secret options are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from smg.config.fields import Field, Kind

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CREDENTIALS = re.compile(r"//[^/]*@")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def from_flag(field: Field, given: object) -> object:
    """`given` is a word, a list of words, or a bool for switches."""
    if isinstance(given, bool):
        return given
    if isinstance(given, list):
        return _from_words(field, given)
    return _from_word(field, str(given))


def from_environment(field: Field, text: str) -> object:
    """A list is written as words between blanks, or as a JSON array of texts when words contain blanks."""
    if field.kind.is_list:
        return _from_words(field, split_words(text))
    if field.kind.is_switch:
        return truth(text)
    return _from_word(field, text)


def from_file(field: Field, value: object) -> object:
    """`value` is what YAML made of it; a text is not taken for a number and the other way round."""
    if field.kind.is_list:
        if not isinstance(value, list):
            raise ValueError(f"needs a list, not {_shown(field, value)}")
        if field.kind is Kind.NUMBERS:
            return tuple(_number(field, item) for item in value)
        if not all(isinstance(item, str) for item in value):
            raise ValueError("needs a list of texts; put quotes around the others")
        return _from_words(field, value)
    if field.kind.is_switch:
        if not isinstance(value, bool):
            raise ValueError(f"needs true or false, not {_shown(field, value)}")
        return value
    if field.kind is Kind.INTEGERS:
        if isinstance(value, str):
            return _from_word(field, value)
        return _integers(field, value if isinstance(value, list) else [value])
    if field.kind is Kind.TEXT:
        if not isinstance(value, str):
            raise ValueError(f"needs {field.expected}, not {_shown(field, value)}; put quotes around it")
        return _from_word(field, value)
    return _number(field, value)


def truth(text: str) -> bool:
    """The meaning of a switch's environment variable."""
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"needs true or false, not {text!r}")
    return word in _TRUE


def split_words(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return text.split()
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        raise ValueError('begins with [ but is no JSON array of texts such as ["a", "b"]') from None


def _from_words(field: Field, words: Sequence[str]) -> tuple[object, ...]:
    read, problems = [], []
    begins = field.option.begins_entry
    for position, word in enumerate(words if begins is None else _joined(words, begins), 1):
        try:
            read.append(_from_word(field, word))
        except ValueError as problem:
            entry = f"entry {position}" if field.option.secret else repr(_CREDENTIALS.sub("//…@", word))
            problems.append(f"{entry}: {problem}")
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(read)


def _joined(words: Sequence[str], begins: Callable[[str], bool]) -> list[str]:
    """Entries of several words, each as one text."""
    entries: list[str] = []
    for word in (word for text in words for word in text.split()):
        if entries and not begins(word):
            entries[-1] += " " + word
        else:
            entries.append(word)
    return entries


def _from_word(field: Field, word: str) -> object:
    if field.kind is Kind.INTEGER:
        return _number(field, _integer_or_word(word))
    if field.kind is Kind.INTEGERS:
        return _integers(field, [_integer_or_word(piece) for piece in word.split(",")])
    if field.kind in (Kind.NUMBER, Kind.NUMBERS):
        return _number(field, float(word) if _NUMBER.fullmatch(word.strip()) else word)
    return _text(field, word)


def _integer_or_word(word: str) -> int | str:
    return int(word) if _INTEGER.fullmatch(word.strip()) else word


def _integers(field: Field, values: Sequence[object]) -> tuple[float, ...]:
    """The values in ascending order, each at most once."""
    read = sorted(_number(field, value) for value in values)
    for low, high in pairwise(read):
        if low == high:
            raise ValueError(f"has {low} twice")
    return tuple(read)


def _text(field: Field, word: str) -> object:
    option = field.option
    if not word.strip():
        raise ValueError("must not be empty")
    if _CONTROL.search(word):
        raise ValueError("must not contain control characters")
    if option.choices and word not in option.choices:
        raise ValueError(f"needs {field.expected}, not {word!r}")
    return option.parse(word) if option.parse else word


def _number(field: Field, value: object) -> float:
    is_whole = field.kind in (Kind.INTEGER, Kind.INTEGERS)
    fitting = int if is_whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, fitting) or not field.allows(value):
        raise ValueError(f"needs {field.expected}, not {_shown(field, value)}")
    return value if is_whole else float(value)


def _shown(field: Field, value: object) -> str:
    return "this value" if field.option.secret else repr(value)
