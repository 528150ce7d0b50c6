"""From a request's bytes to its call: the contract kept, the model canonical, the worker's bytes ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from smg._fast.jsonspan import members
from smg._fast.promptspan import prompt_spans
from smg.api.chat import read_chat
from smg.api.completions import read_completion
from smg.api.generate import has_many_results, read_generate
from smg.api.plain import read_plain
from smg.api.surfaces import Surface

# To read a body above this from end to end may take longer than the loop can wait (2 ms): a thread does it.
# What takes long in there lets the interpreter go, or is made of short steps.
LARGE_BODY = 256 * 1024
RID = b"rid"
PROMPTS: Mapping[str, tuple[bytes, ...]] = {
    "chat": (b"messages",),
    "completions": (b"prompt",),
    "generate": (b"text", b"input_ids"),
    "messages": (b"messages", b"system"),
    "responses": (b"input", b"instructions"),
    "embeddings": (b"input",),
}
"""Where prompts stand, by endpoint."""

_READERS = {
    "chat": read_chat,
    "completions": read_completion,
    "generate": read_generate,
}


class Why:
    """What was said of a call's choices, one after the other; `in_header`: the client may see it. `terms` is
    what a policy says of its choice."""

    __slots__ = ("in_header", "said", "terms")

    def __init__(self, in_header: bool) -> None:
        self.in_header = in_header
        self.said: list[str] = []
        self.terms = ""


class Ahead(NamedTuple):
    """What is read of a large body before the loop may ask for it."""

    spans: Mapping[bytes, bytes | None]
    rid: bytes | None
    has_many_results: bool


class Call:
    """The decoded, checked request. `model` is canonical, None when the request names none.

    `body` is what the worker gets, None when it is passed on unread (an opaque call). `dropped` names the
    fields of another model family that it lost, for one warning in the log. `why` collects how its workers
    were chosen when somebody wants to know.
    """

    __slots__ = (
        "_ahead",
        "body",
        "dropped",
        "model",
        "stream",
        "surface",
        "why",
    )

    def __init__(
        self,
        surface: Surface,
        model: str | None,
        stream: bool,
        body: bytes | None,
        dropped: tuple[str, ...] = (),
    ) -> None:
        self.surface = surface
        self.model = model
        self.stream = stream
        self.body = body
        self.dropped = dropped
        self.why: Why | None = None
        self._ahead: Ahead | None = None

    def look_ahead(self) -> None:
        """Read once and for all what the loop may want to know of a large body."""
        if self.body is None:
            return
        places = PROMPTS.get(self.surface.endpoint, ())
        spans = {member: prompt_spans(self.body, member) for member in places}
        is_generate = self.surface.endpoint == "generate"
        many = is_generate and has_many_results(self.body, spans[b"text"], spans[b"input_ids"])
        self._ahead = Ahead(spans, _rid_of(self.body), many)

    def spans(self, member: bytes) -> bytes | None:
        """Where the prompt's text stands in the body; see `prompt_spans`."""
        if self._ahead is not None:
            return self._ahead.spans.get(member)
        return prompt_spans(self.body, member) if self.body is not None else None

    @property
    def has_many_results(self) -> bool:
        """See there; of a generate call."""
        if self._ahead is not None:
            return self._ahead.has_many_results
        if self.body is None:
            return False
        return has_many_results(self.body, self.spans(b"text"), self.spans(b"input_ids"))

    @property
    def rid(self) -> bytes | None:
        """The body's `rid` as written; None when there is none."""
        if self._ahead is not None:
            return self._ahead.rid
        return _rid_of(self.body) if self.body is not None else None


def is_json_type(content_type: bytes | None) -> bool:
    """Is it `application/json` or `application/*+json`, with any parameters and in any case?"""
    if content_type is None:
        return False
    if content_type == b"application/json":
        return True
    kind = content_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))


def _rid_of(body: bytes) -> bytes | None:
    found = members(body)
    return found.raw(RID) if found is not None else None


def decode(surface: Surface, body: bytes, resolve: Callable[[str], str]) -> Call:
    """Check a body and plan its way to a worker; `resolve` gives a model's canonical name.

    Raises 400, 422 for a `/generate` body that does not fit, and 404 for a model that cannot be.
    May run in any thread.
    """
    read = _READERS.get(surface.endpoint)
    draft = (
        read(body)
        if read is not None
        else read_plain(body, needs_model=surface.needs_model, needs=surface.needs)
    )
    model = draft.model
    if model is not None:
        canonical = resolve(model)
        if canonical != model:
            draft.replace("model", msgspec.json.encode(canonical))
            model = canonical
    return Call(surface, model, draft.written("stream") == b"true", draft.finish(), draft.dropped)
