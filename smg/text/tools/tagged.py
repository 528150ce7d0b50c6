"""Calls whose arguments stand between tags, each as text that becomes JSON by the tool's schema."""

from __future__ import annotations

import html
import re
from typing import ClassVar

from smg.text.channels import K3_AROUND, K3_END, K3_THINK, K3_THOUGHT, K3_TOOLS
from smg.text.feed import Marks, Steps, ignore
from smg.text.jsontext import encoded
from smg.text.tools.framed import MAX_HEADER_CHARACTERS, MAX_NAME_CHARACTERS, Framed, Sectioned
from smg.text.tools.values import STRING, TEXT, Kinds, as_json

_NAME = re.compile(r'[^\s<>"{}]+')


class Members(Framed):
    """Writes the arguments' object member by member. A value that must be a string passes as it comes.

    Where a schema, not the text, says that it is a string, a JSON string is taken for what it says.
    """

    VALUE_END: ClassVar[Marks]
    VALUE_LEAD: ClassVar[str] = ""
    """What belongs to the tags, if it stands at a value's beginning."""

    def member(self, key: str, kinds: Kinds, separator: str) -> Steps[bool]:
        self.arguments(f"{separator}{encoded(key)}:")
        yield from self.feed.starts(self.VALUE_LEAD)
        if kinds == TEXT or (kinds == STRING and not (yield from self.feed.starts('"'))):
            return (yield from self.string())
        pieces = ['"'] if kinds == STRING else []
        if not (yield from self.feed.until(self.VALUE_END, pieces.append)):
            return False
        self.arguments(as_json("".join(pieces), kinds))
        return True

    def string(self) -> Steps[bool]:
        self.arguments('"')
        if not (yield from self.feed.until(self.VALUE_END, self._string_piece)):
            return False
        self.arguments('"')
        return True

    def _string_piece(self, piece: str) -> None:
        self.arguments(encoded(piece)[1:-1])


class Tagged(Members):
    """Each value has a tag that names it."""

    HEADER_END: ClassVar[Marks]
    VALUE: ClassVar[str]
    IN_CALL: ClassVar[Marks]
    """`VALUE` and the mark that ends a call."""

    def tagged(self) -> Steps[bool]:
        """What follows the mark that begins a call, to its end."""
        header = yield from self.header()
        name = self.name_in(header) if header is not None else ""
        if not name:
            return False
        self.begin(name)
        if (yield from self.feed.blank()) == "{":
            return (yield from self.json.value(self.arguments)) and (yield from self.ends())
        separator = "{"
        while (mark := (yield from self.feed.until(self.IN_CALL, ignore))) == self.VALUE:
            header = yield from self.header()
            key, kinds = self.key_in(name, header or "")
            if not key or not (yield from self.member(key, kinds, separator)):
                return False
            separator = ","
        if not mark:
            return False
        self.arguments("{}" if separator == "{" else "}")
        return True

    def ends(self) -> Steps[bool]:
        mark = yield from self.feed.until(self.IN_CALL, ignore)
        return bool(mark) and mark != self.VALUE

    def header(self) -> Steps[str | None]:
        found = yield from self.feed.within(self.HEADER_END, MAX_HEADER_CHARACTERS)
        return found[0] if found else None

    def name_in(self, header: str) -> str:
        return header.strip()

    def key_in(self, name: str, header: str) -> tuple[str, Kinds]:
        key = header.strip()
        return key, self.schemas.kinds(name, key)


class QwenXml(Tagged):
    """A line end after and before the tags of a value belongs to them."""

    OPEN = Marks("<tool_call>")
    HEADER_END = Marks(">")
    VALUE = "<parameter="
    VALUE_LEAD = "\n"
    VALUE_END = Marks("\n</parameter>", "</parameter>")
    IN_CALL = Marks(VALUE, "</function>", "</tool_call>")

    def call(self, mark: str) -> Steps[bool]:
        if not (yield from self.after_blanks("<function=")) or not (yield from self.tagged()):
            return False
        return (yield from self.end_with("</tool_call>"))


class Invoked(Sectioned, Tagged):
    """`<invoke name="…">` and `<parameter name="…">`, under names of their own."""

    HEADER_END = Marks('">')

    def call(self, mark: str) -> Steps[bool]:
        if not (yield from self.tagged()):
            return False
        self.end()
        return True


class MiniMax(Invoked):
    OPEN = Marks("<minimax:tool_call>")
    CALL = '<invoke name="'
    INSIDE = Marks(CALL, "</minimax:tool_call>")
    VALUE = '<parameter name="'
    VALUE_END = Marks("</parameter>")
    IN_CALL = Marks(VALUE, "</invoke>")


class Step3(Invoked):
    OPEN = Marks("<｜tool_calls_begin｜>")
    CALL = "<｜tool_call_begin｜>"
    INSIDE = Marks(CALL, "<｜tool_calls_end｜>")
    VALUE = '<steptml:parameter name="'
    VALUE_END = Marks("</steptml:parameter>")
    IN_CALL = Marks(VALUE, "</steptml:invoke>")

    def call(self, mark: str) -> Steps[bool]:
        if not (yield from self.feed.starts('function<｜tool_sep｜><steptml:invoke name="')):
            return False
        if not (yield from self.tagged()):
            return False
        return (yield from self.end_with("<｜tool_call_end｜>"))


class Dsml(Invoked):
    """A value says itself whether it is a string or JSON. White space before the section belongs to it."""

    CALL = '<｜DSML｜invoke name="'
    VALUE = '<｜DSML｜parameter name="'
    VALUE_END = Marks("</｜DSML｜parameter>")
    IN_CALL = Marks(VALUE, "</｜DSML｜invoke>")
    _KEY = re.compile(r'([^"]+)(?:" string="(true|false))?')
    _JSON: Kinds = frozenset({"null", "boolean", "number", "object", "array", "string"})

    def prose(self, piece: str) -> None:
        self.hold_space(piece)

    def key_in(self, name: str, header: str) -> tuple[str, Kinds]:
        found = self._KEY.fullmatch(header)
        if found is None:
            return "", TEXT
        if found[2] is None:
            return found[1], self.schemas.kinds(name, found[1])
        return found[1], TEXT if found[2] == "true" else self._JSON


class DeepSeek32(Dsml):
    OPEN = Marks("<｜DSML｜function_calls>")
    INSIDE = Marks(Dsml.CALL, "</｜DSML｜function_calls>")


class DeepSeekV4(Dsml):
    OPEN = Marks("<｜DSML｜tool_calls>")
    INSIDE = Marks(Dsml.CALL, "</｜DSML｜tool_calls>")


class KimiK3(Sectioned, Tagged):
    """Channels: one for text, one for calls, whose values name their types."""

    KEEPS_REST = True
    OPEN = Marks(K3_TOOLS, K3_THINK, *K3_AROUND, K3_END)
    CALL = "<|open|>call "
    INSIDE = Marks(CALL, "<|close|>tools<|sep|>")
    HEADER_END = Marks("<|sep|>")
    VALUE = "<|open|>argument "
    VALUE_END = Marks("<|close|>argument<|sep|>")
    IN_CALL = Marks(VALUE, "<|close|>call<|sep|>")
    _THOUGHT = Marks(K3_THOUGHT)
    _ATTRIBUTE = re.compile(r'([a-z]+)="([^"]*)"')

    def section(self, opened: str) -> Steps[None]:
        if opened == K3_TOOLS:
            yield from super().section(opened)
        elif opened == K3_THINK:
            self.feed.forget()
            yield from self.feed.until(self._THOUGHT, ignore)

    def call(self, mark: str) -> Steps[bool]:
        if not (yield from self.tagged()):
            return False
        self.end()
        return True

    def name_in(self, header: str) -> str:
        return self._attributes(header).get("tool", "")

    def key_in(self, name: str, header: str) -> tuple[str, Kinds]:
        found = self._attributes(header)
        kind = found.get("type", "")
        return found.get("key", ""), TEXT if kind == "string" else frozenset({kind})

    def _attributes(self, header: str) -> dict[str, str]:
        return {key: html.unescape(value) for key, value in self._ATTRIBUTE.findall(header)}


class Glm(Members):
    """Keys and values have tags each, and a name stands before them."""

    OPEN = Marks("<tool_call>")
    VALUE_END = Marks("</arg_value>")
    _END = "</tool_call>"
    _KEY = "<arg_key>"
    _NAME_END = Marks("\n", _KEY, _END)
    _KEY_END = Marks("</arg_key>")
    _NEXT = Marks(_KEY, _END)

    def call(self, mark: str) -> Steps[bool]:
        yield from self.feed.blank()
        found = yield from self.feed.within(self._NAME_END, MAX_NAME_CHARACTERS)
        if found is None or not _NAME.fullmatch(name := found[0].strip()):
            return False
        self.begin(name)
        separator, mark = "{", found[1]
        while mark and mark != self._END:
            if mark == self._KEY:
                if not (yield from self._pair(name, separator)):
                    return False
                separator = ","
            mark = yield from self.feed.until(self._NEXT, ignore)
        if not mark:
            return False
        self.arguments("{}" if separator == "{" else "}")
        self.end()
        return True

    def _pair(self, name: str, separator: str) -> Steps[bool]:
        found = yield from self.feed.within(self._KEY_END, MAX_NAME_CHARACTERS)
        yield from self.feed.blank()
        if found is None or not (yield from self.feed.starts("<arg_value>")):
            return False
        key = found[0].strip()
        return (yield from self.member(key, self.schemas.kinds(name, key), separator))
