"""Calls that are JSON objects, `{"name": …, "arguments": …}`: alone, in lists, between marks."""

from __future__ import annotations

from typing import ClassVar

from smg.text.channels import INKLING_AROUND, INKLING_CALL, INKLING_END, INKLING_MODEL
from smg.text.feed import Marks, Pattern, Sink, Steps, ignore
from smg.text.tools.framed import Framed


class Objects(Framed):
    """Reads objects and lists of them. Of members with one name the first counts."""

    NAMES: ClassVar[frozenset[str]] = frozenset({"name"})
    ARGUMENTS: ClassVar[frozenset[str]] = frozenset({"arguments", "parameters"})
    OTHERS: ClassVar[frozenset[str] | None] = None
    """What a call may have besides: any other member makes it an object like any other. `None`: anything."""

    def objects(self) -> Steps[bool]:
        """An object or a list of them."""
        if (yield from self.json.takes("[")):
            return (yield from self.array())
        if (yield from self.json.takes("{")) and (yield from self.object()):
            self.end()
            return True
        return False

    def array(self) -> Steps[bool]:
        """What follows the bracket of a list."""
        while (yield from self.json.takes("{")) and (yield from self.object()):
            self.end()
            if not (yield from self.json.takes(",")):
                yield from self.json.takes("]")
                self.feed.keep()
                return True
        return False

    def object(self) -> Steps[bool]:
        """What follows the brace of an object. The call is begun as soon as its name and place are known."""
        name: str | None = None
        held: list[str] | None = None
        while (key := (yield from self.key())) is not None:
            if key in self.ARGUMENTS and held is None and not self.passing:
                held = []
                if name:
                    self.begin(name)
                good = yield from self.argument_value(self.arguments if name else held.append)
            elif key in self.NAMES and name is None and not self.passing:
                if (yield from self.json.takes('"')):
                    name = yield from self.json.text()
                    good = name is not None
                else:
                    good = yield from self.other()
            elif self.open or self.OTHERS is None or key in self.OTHERS:
                good = yield from self.json.value(ignore)
            else:
                good = yield from self.other()
            if not good:
                return False
            if not (yield from self.json.takes(",")):
                break
        if not (yield from self.json.takes("}")) or not name or self.passing:
            return False
        if not self.open:
            self.begin(name)
            self.arguments("".join(held or ()) or "{}")
        return True

    def key(self) -> Steps[str | None]:
        """A member's name and the colon after it."""
        if not (yield from self.json.takes('"')):
            return None
        key = yield from self.json.text()
        return key if key is not None and (yield from self.json.takes(":")) else None

    def other(self) -> Steps[bool]:
        """A value of an object that is no call: content from here on, as it comes."""
        self.passing = True
        return (yield from self.json.value(ignore))

    def argument_value(self, sink: Sink) -> Steps[bool]:
        return (yield from self.json.value(sink))


class Json(Objects):
    """Nothing marks a call but that it is one."""

    KEEPS_REST = True
    NAMES = frozenset({"name", "function"})
    OTHERS = frozenset({"id", "index", "type"})
    OPEN = Pattern(r'\{(?=\s{0,9}")|\[(?=\s{0,9}\{)', r"[\[{]\s{0,9}\Z", 11)

    def call(self, mark: str) -> Steps[bool]:
        if mark == "[":
            return (yield from self.array())
        if (yield from self.object()):
            self.end()
            return True
        return False


class Llama(Objects):
    """Objects after a mark, or from the beginning of the text on, with semicolons between them."""

    KEEPS_REST = True
    OTHERS = frozenset({"id", "index", "type"})
    OPEN = Marks("<|python_tag|>")

    def steps(self) -> Steps[None]:
        self.feed.keep()
        if (yield from self.feed.blank()) == "{" and (yield from self.call("")):
            self.feed.forget()
        else:
            self.give_back()
        yield from super().steps()

    def call(self, mark: str) -> Steps[bool]:
        while (yield from self.json.takes("{")) and (yield from self.object()):
            self.end()
            if not (yield from self.after_blanks(";")):
                self.pass_on()
                return True
        return False


class Qwen(Objects):
    OPEN = Marks("<tool_call>")

    def call(self, mark: str) -> Steps[bool]:
        if not ((yield from self.json.takes("{")) and (yield from self.object())):
            return False
        return (yield from self.end_with("</tool_call>"))


class Mistral(Objects):
    OPEN = Marks("[TOOL_CALLS]")

    def call(self, mark: str) -> Steps[bool]:
        return (yield from self.json.takes("[")) and (yield from self.array())


class Cohere(Objects):
    KEEPS_REST = True
    NAMES = frozenset({"tool_name", "name"})
    _ACTION = "<|START_ACTION|>"
    OPEN = Marks(_ACTION, "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")

    def call(self, mark: str) -> Steps[bool]:
        if mark != self._ACTION:
            return True
        if not (yield from self.objects()):
            return False
        yield from self.after_blanks("<|END_ACTION|>")
        return True


class Inkling(Objects):
    """The frames of a message: those that call a tool, and those around text."""

    KEEPS_REST = True
    ARGUMENTS = frozenset({"args"})
    OPEN = Marks(INKLING_CALL, *INKLING_AROUND)

    def call(self, mark: str) -> Steps[bool]:
        while mark == INKLING_MODEL:
            mark = yield from self.feed.until(self.OPEN, ignore)
        if mark != INKLING_CALL:
            return True
        self.feed.keep(len(mark))
        if not ((yield from self.json.takes("{")) and (yield from self.object())):
            return False
        self.end()
        yield from self.after_blanks(INKLING_END)
        return True

    def argument_value(self, sink: Sink) -> Steps[bool]:
        return (yield from self.feed.blank()) == "{" and (yield from self.json.value(sink))
