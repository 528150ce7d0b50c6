"""What a realtime session must name, and which offers of WebRTC calls are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from smg.api.call import Call
from smg.api.realtime import decode, read_offer
from smg.api.surfaces import SURFACES
from smg.errors import GatewayError

PATHS = {
    "sessions": {"type": "realtime", "model": "m"},
    "transcription_sessions": {"type": "transcription", "model": "m"},
    "client_secrets": {"session": {"type": "realtime", "model": "m"}},
}
OFFER = b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"
FORM = b"multipart/form-data; boundary=x"


def read(name: str, body: Any, **aliases: str) -> Call:
    [surface] = [one for one in SURFACES if one.path == f"/v1/realtime/{name}"]
    text = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return decode(surface, text, lambda model: aliases.get(model, model))


def form(**parts: bytes) -> bytes:
    lines = [
        b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (n.encode(), v)
        for n, v in parts.items()
    ]
    return b"".join(lines) + b"--x--\r\n"


@pytest.mark.parametrize("name", PATHS)
def test_the_worker_gets_what_the_client_sent(name: str) -> None:
    text = msgspec.json.encode(PATHS[name]).replace(b'"m"', b'"m" , "temperature": 0.70, "new": [1e2]')
    call = read(name, text)
    assert (call.model, call.stream, call.body) == ("m", False, text)


@pytest.mark.parametrize("name", PATHS)
def test_an_alias_is_replaced(name: str) -> None:
    call = read(name, PATHS[name], m="real/model")
    assert call.model == "real/model" and call.body is not None
    assert call.body == msgspec.json.encode(PATHS[name]).replace(b'"m"', b'"real/model"')


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("sessions", {"model": "m"}, "missing field `type`"),
        ("sessions", {"type": "realtime"}, "missing field `model`"),
        ("sessions", {"type": "transcription", "model": "m"}, "type"),
        ("sessions", {"type": "realtime", "model": 3}, "model"),
        ("sessions", {"type": "realtime", "model": ""}, "model: "),
        ("sessions", b"{", "JSON syntax error"),
        ("sessions", b"[]", ""),
        ("transcription_sessions", {"model": "m"}, "missing field `type`"),
        ("transcription_sessions", {"type": "realtime", "model": "m"}, "type"),
        ("client_secrets", {}, "missing field `session`"),
        ("client_secrets", {"session": {"type": "realtime"}}, "missing field `model`"),
        ("client_secrets", {"session": {"model": "m"}}, "missing field `type`"),
        ("client_secrets", {"session": {"type": "realtime", "model": ""}}, "model: "),
    ],
)
def test_what_is_missing_or_wrong_is_said(name: str, body: Any, said: str) -> None:
    with pytest.raises(GatewayError) as raised:
        read(name, body)
    assert raised.value.status == 400 and said in raised.value.message


@pytest.mark.parametrize("kind", [b"application/sdp", b"Application/SDP; charset=utf-8"])
def test_an_offer_with_its_model_in_the_query(kind: bytes) -> None:
    offer = read_offer(kind, OFFER, "m")
    assert (offer.sdp, offer.model) == (OFFER, "m")


def test_an_offer_in_a_form() -> None:
    body = form(session=b'{"type": "realtime", "model": "real/model"}', sdp=OFFER, other=b"1")
    offer = read_offer(FORM, body, "not this")
    assert (offer.sdp, offer.model, offer.rate) == (OFFER, "real/model", 24000)
    assert offer.session == b'{"type": "realtime", "model": "real/model"}'


def test_the_rate_of_sound() -> None:
    told = b'{"model": "m", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}'
    assert read_offer(FORM, form(session=told, sdp=OFFER), "").rate == 16000


@pytest.mark.parametrize(
    ("kind", "body", "model", "code"),
    [
        (b"application/sdp", OFFER, "", "missing_model"),
        (b"application/sdp", b"", "m", "invalid_sdp"),
        (b"application/sdp", b"hello", "m", "invalid_sdp"),
        (b"application/sdp", b"v=0\r\n", "m", "invalid_sdp"),
        (b"application/sdp", OFFER + b"no line\r\n", "m", "invalid_sdp"),
        (b"application/json", b"{}", "m", "invalid_content_type"),
        (b"multipart/form-data", b"", "m", "invalid_content_type"),
        (None, OFFER, "m", "invalid_content_type"),
        (FORM, form(session=b'{"model":"m"}'), "m", "missing_sdp"),
        (FORM, form(sdp=OFFER), "m", "missing_model"),
        (FORM, form(sdp=OFFER, session=b"{}"), "m", "missing_model"),
        (FORM, form(sdp=OFFER, session=b'{"model": 3}'), "m", "invalid_session_json"),
        (FORM, form(sdp=OFFER, session=b"[]"), "m", "invalid_session_json"),
        (FORM, form(sdp=OFFER, session=b"{"), "m", "invalid_session_json"),
        (FORM, form(sdp=b"v=1", session=b'{"model":"m"}'), "m", "invalid_sdp"),
        (FORM, form(sdp=OFFER)[:-9], "m", "invalid_multipart"),
    ],
)
def test_an_offer_that_cannot_be_read(kind: bytes | None, body: bytes, model: str, code: str) -> None:
    with pytest.raises(GatewayError) as raised:
        read_offer(kind, body, model)
    assert (raised.value.status, raised.value.code) == (400, code)
