"""Who the caller is, the request's ID, and its call: all that is decided before a worker is looked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg.admission.identity import Identity
from smg.api import decisions, realtime
from smg.api.audio import FormReader, Transcription
from smg.api.call import LARGE_BODY, Call, decode, is_json_type
from smg.api.decisions import LARGE_DECISIONS
from smg.api.request_id import RequestIds, is_valid
from smg.api.surfaces import Surface
from smg.backends.off_loop import FREED_APART, free_apart
from smg.telemetry import logs

# Who reads the JSON of a surface, if not `decode`.
Decoder = Callable[[Surface, bytes, Callable[[str], str]], Call]
DECODERS: dict[str, Decoder] = {
    "decisions": decisions.decode,
    "realtime": realtime.decode,
}

log = logs.get("admit")


class Origins(Protocol):
    """What browsers of an origin are told."""

    def headers(self, origin: str | None) -> tuple[tuple[str, str], ...]: ...


class Admission:
    """`origins`: None when no browser may call. `request_s`, `stall_s`: timeouts of the body in seconds,
    for the messages of their errors."""

    def __init__(
        self,
        identity: Identity,
        request_ids: RequestIds,
        resolve: Callable[[str], str],
        max_payload_bytes: int,
        request_s: float,
        stall_s: float,
        origins: Origins | None = None,
    ) -> None:
        self._identity = identity
        self._ids = request_ids
        self._resolve = resolve
        self._limit = max_payload_bytes
        self._request_s = request_s
        self._stall_s = stall_s
        self._origins = origins

    def name(self, x: Exchange) -> None:
        """Give the exchange its request ID, and its answer what a browser asks for."""
        if self._origins is not None:
            origin = x.head.get(b"origin")
            lines = self._origins.headers(origin.decode("latin-1") if origin is not None else None)
            x.extra_lines = "".join(f"{name}: {value}\r\n" for name, value in lines).encode("latin-1")
        value = x.head.first_of(self._ids.names)
        x.request_id = value if value is not None and is_valid(value) else self._ids.new(x.route.id_prefix)

    def identify(self, x: Exchange) -> None:
        """Find the tenant, or raise 400 or 401. Comes before a byte of the body is read."""
        identity = self._identity
        if not identity.is_open:
            x.tenant = identity.identify(x.head.get(b"authorization"))
        elif identity.tells_strangers_apart:
            x.tenant = identity.stranger(x.head.get, x.peer)
        else:
            x.tenant = identity.anonymous

    def receive(self, x: Exchange) -> Awaitable[None]:
        """Begin to receive a JSON body; raises 400 for another kind of body."""
        if not is_json_type(x.head.get(b"content-type")):
            raise errors.missing_content_type()
        return x.receive_body(self._limit)

    def decode(self, x: Exchange) -> Call | None:
        """Check the received body and read its call; raises 400, 408, 413 and 422. None: the body is large,
        use `decode_large`."""
        if x.received != fast.BODY_COMPLETE:
            raise self.body_error(x.received)
        surface, body = x.route, x.body
        assert body is not None
        size = len(body)
        if size > LARGE_DECISIONS and (size > LARGE_BODY or surface.endpoint == "decisions"):
            return None
        return self._take(x, DECODERS.get(surface.endpoint, decode)(surface, body, self._resolve))

    async def decode_large(self, x: Exchange) -> Call:
        """The same in a thread, while the loop goes on."""
        decoder = DECODERS.get(x.route.endpoint, decode)
        loop = asyncio.get_running_loop()
        assert x.body is not None
        found = await loop.run_in_executor(None, _decode_apart, decoder, x.route, x.body, self._resolve)
        if isinstance(found, errors.GatewayError):
            raise found
        return self._take(x, found)

    async def read_form(self, x: Exchange) -> Call:
        """Receive and check a form; raises 400, 408 and 413."""
        reader = FormReader(x.head.get(b"content-type"))
        try:
            await x.receive_into(reader.feed, self._limit)
            if reader.failure is not None:
                raise reader.failure
            if x.received != fast.BODY_COMPLETE:
                raise self.body_error(x.received)
            return self._take(x, reader.finish(x.route, self._resolve))
        except BaseException:
            reader.close()
            raise

    def _take(self, x: Exchange, call: Call) -> Call:
        if call.dropped:
            log.warn("fields of another model family dropped", model=call.model, fields=call.dropped)
        x.call = call
        x.stream = call.stream
        return call

    def release(self, x: Exchange) -> None:
        """Give up what reading the call took: the file of a form, the memory of a large body."""
        if isinstance(x.call, Transcription):
            x.call.form.close()
        body = x.body
        if body is not None and len(body) > FREED_APART:
            free_apart(_texts_of(x))

    def opaque_call(self, x: Exchange) -> Call:
        """A call whose body goes to the worker unread, byte for byte."""
        if x.head.content_length > self._limit:
            raise errors.request_body_too_large(self._limit)
        x.pipe_body()
        call = Call(x.route, None, False, None)
        x.call = call
        return call

    def body_error(self, received: int) -> errors.GatewayError:
        """What is answered to a body that did not come in whole."""
        if received == fast.BODY_TOO_LARGE:
            return errors.request_body_too_large(self._limit)
        if received == fast.BODY_STALLED:
            return errors.request_body_stalled(self._stall_s)
        if received == fast.BODY_LATE:
            return errors.request_body_timeout(self._request_s)
        if received == fast.BODY_MALFORMED:
            return errors.malformed_request(400, "The request body is not in the chunked coding")
        return errors.request_body_aborted()


def _texts_of(x: Exchange) -> list[bytes]:
    """The bodies that an exchange holds, which forgets them."""
    texts = [x.forget_body()]
    if x.call is not None and x.call.body is not None:
        if x.call.body is not texts[0]:
            texts.append(x.call.body)
        x.call.body = None
    return texts


def _decode_apart(
    decoder: Decoder, surface: Surface, body: bytes, resolve: Callable[[str], str]
) -> Call | errors.GatewayError:
    """In a thread: the call of a large body, and what the loop will want to know of it.

    An error is given without the frames it comes from, or what they hold would be freed on the loop.
    """
    try:
        call = decoder(surface, body, resolve)
    except errors.GatewayError as error:
        error.__context__ = None
        return error.with_traceback(None)
    call.look_ahead()
    return call
