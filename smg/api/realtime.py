"""The HTTP requests of the Realtime API: what a session must name, and the offer of a WebRTC call.

Only what the gateway itself needs is checked; a worker gets the client's own bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from smg import errors
from smg._fast.jsonedit import splice
from smg._fast.jsonspan import members, members_at
from smg.api.call import Call
from smg.api.contract import Contract
from smg.api.draft import Draft
from smg.api.multipart import FormError, MultipartParser, Part, boundary_of
from smg.api.surfaces import Surface

SDP = "application/sdp"
USUAL_RATE = 24000
"""Samples a second of the Realtime API's sound."""
CLIENT_SECRETS = "/v1/realtime/client_secrets"
TRANSCRIPTION_SESSIONS = "/v1/realtime/transcription_sessions"

# The lines every session description begins with, in this order (RFC 8866 section 5).
_OFFER = re.compile(rb"v=0\r?\no=[^\r\n]+\r?\ns=[^\r\n]*\r?\n(?:[a-z]=[^\r\n]*\r?\n)*t=\d+ \d+\r?\n")
_LINES = re.compile(rb"(?:[a-z]=[^\r\n]*(?:\r?\n|$))*")


class RealtimeSession(msgspec.Struct):
    type: Literal["realtime"]
    model: str


class TranscriptionSession(msgspec.Struct):
    type: Literal["transcription"]
    model: str


class SecretSession(msgspec.Struct):
    type: Literal["realtime", "transcription"]
    model: str


class ClientSecret(msgspec.Struct):
    session: SecretSession


class AudioFormat(msgspec.Struct):
    rate: Annotated[int, msgspec.Meta(ge=8000, le=48000)] = USUAL_RATE


class AudioInput(msgspec.Struct):
    format: AudioFormat = msgspec.field(default_factory=AudioFormat)


class Audio(msgspec.Struct):
    input: AudioInput = msgspec.field(default_factory=AudioInput)


class CallSession(msgspec.Struct):
    """What the gateway reads of the session that a WebRTC call begins with."""

    model: str = ""
    audio: Audio = msgspec.field(default_factory=Audio)


_SESSION = Contract(RealtimeSession)
_TRANSCRIPTION = Contract(TranscriptionSession)
_SECRET = Contract(ClientSecret)


def decode(surface: Surface, body: bytes, resolve: Callable[[str], str]) -> Call:
    """The call of a session, its model made canonical; raises 400."""
    if surface.path == CLIENT_SECRETS:
        return _decode_secret(surface, body, resolve)
    contract = _TRANSCRIPTION if surface.path == TRANSCRIPTION_SESSIONS else _SESSION
    draft = Draft(contract, contract.read(body), None)
    model = _named(draft.value("model"))
    canonical = resolve(model)
    if canonical != model:
        draft.replace("model", msgspec.json.encode(canonical))
    return Call(surface, canonical, False, draft.finish())


def _decode_secret(surface: Surface, body: bytes, resolve: Callable[[str], str]) -> Call:
    draft = Draft(_SECRET, _SECRET.read(body), None)
    session = members_at(body, draft.start("session"))
    span = session.span(b"model")
    assert span is not None
    model = _named(msgspec.json.decode(body[slice(*span)]))
    canonical = resolve(model)
    if canonical != model:
        body = splice(body, [(*span, msgspec.json.encode(canonical))])
    return Call(surface, canonical, False, body)


def _named(model: str) -> str:
    if not model:
        raise errors.validation_failed("model: the name of a model must not be empty")
    return model


class Offer:
    """What a client asks for to begin a WebRTC call: its session description, the model, the session as the
    form has it, and in how many samples a second the worker hears and speaks."""

    __slots__ = ("model", "rate", "sdp", "session")

    def __init__(self, sdp: bytes, model: str, session: bytes | None = None, rate: int = USUAL_RATE) -> None:
        self.sdp = sdp
        self.model = model
        self.session = session
        self.rate = rate

    def rename(self, model: str) -> None:
        """Name the model as the worker knows it."""
        if self.session is not None and model != self.model:
            found = members(self.session)
            assert found is not None
            self.session = found.replace(b"model", msgspec.json.encode(model))
        self.model = model


def read_offer(content_type: bytes | None, body: bytes, query_model: str) -> Offer:
    """The offer of `/v1/realtime/calls`: a bare description with the model in the query, or a form that
    has both. Raises 400."""
    kind = (content_type or b"").partition(b";")[0].strip().lower()
    if kind == SDP.encode():
        if not query_model:
            raise errors.invalid_call("missing_model", "The query parameter 'model' is required")
        _check_description(body)
        return Offer(body, query_model)
    boundary = boundary_of(content_type)
    if boundary is None:
        raise errors.invalid_call(
            "invalid_content_type", f"Content-Type must be {SDP} or multipart/form-data"
        )
    form = _read_form(boundary, body)
    if b"sdp" not in form:
        raise errors.invalid_call("missing_sdp", "The form needs a part 'sdp'")
    session = _read_session(form.get(b"session", b"{}"))
    _check_description(form[b"sdp"])
    if not session.model:
        raise errors.invalid_call("missing_model", "The part 'session' must name a model")
    return Offer(form[b"sdp"], session.model, form[b"session"], session.audio.input.format.rate)


def _check_description(sdp: bytes) -> None:
    if not sdp.startswith(b"v=0"):
        raise errors.invalid_call("invalid_sdp", "The offer must begin with 'v=0'")
    if not _OFFER.match(sdp) or not _LINES.fullmatch(sdp):
        raise errors.invalid_call("invalid_sdp", "The offer is no session description")


def _read_session(text: bytes) -> CallSession:
    try:
        return msgspec.json.decode(text, type=CallSession)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        message = f"The part 'session' is no session: {problem}"
        raise errors.invalid_call("invalid_session_json", message) from None


class _Parts:
    """Collects the form's parts by name; of several of one name the last counts."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._name: bytes | None = None
        self._value = bytearray()

    def begin(self, part: Part) -> None:
        self._name = part.name
        self._value.clear()

    def data(self, piece: bytes) -> None:
        self._value += piece

    def end(self) -> None:
        if self._name is not None:
            self.values[self._name] = bytes(self._value)


def _read_form(boundary: bytes, body: bytes) -> dict[bytes, bytes]:
    parts = _Parts()
    parser = MultipartParser(boundary, parts)
    try:
        parser.feed(body)
        parser.close()
    except FormError as error:
        raise errors.invalid_call("invalid_multipart", f"Failed to read the form: {error}") from None
    return parts.values
