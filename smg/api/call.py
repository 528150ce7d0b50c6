"""From a request's bytes to its call: the contract kept, the model canonical, the worker's bytes ready."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from smg.api.chat import read_chat
from smg.api.completions import read_completion
from smg.api.generate import read_generate
from smg.api.plain import read_plain
from smg.api.surfaces import Surface

# A body above this may take longer to decode than the loop can wait (2 ms), when many of its messages need an
# edit: do it in a thread. What takes long in there lets the interpreter go, or is made of short steps.
LARGE_BODY = 256 * 1024

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


class Call:
    """The decoded, checked request. `model` is canonical, None when the request names none.

    `body` is what the worker gets, None when it is passed on unread (an opaque call). `dropped` names the
    fields of another model family that it lost, for one warning in the log. `why` collects how its workers
    were chosen when somebody wants to know.
    """

    __slots__ = ("body", "dropped", "model", "stream", "surface", "why")

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


def is_json_type(content_type: bytes | None) -> bool:
    """Is it `application/json` or `application/*+json`, with any parameters and in any case?"""
    if content_type is None:
        return False
    if content_type == b"application/json":
        return True
    kind = content_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))


def decode(surface: Surface, body: bytes, resolve: Callable[[str], str]) -> Call:
    """Check a body and plan its way to a worker; `resolve` gives a model's canonical name.

    Raises 400, or 422 for a `/generate` body that does not fit. May run in any thread.
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
