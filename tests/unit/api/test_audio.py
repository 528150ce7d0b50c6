"""The form of a transcription: what is refused in which words, and what the worker is sent."""

from __future__ import annotations

import pytest

from smg.api.audio import MAX_FIELD_BYTES, FormReader, Transcription
from smg.api.multipart import MultipartParser, boundary_of
from smg.api.surfaces import SURFACES
from smg.errors import GatewayError
from tests.unit.api.test_multipart import Collector, part

SURFACE = next(one for one in SURFACES if one.takes_form)
FILE = part(b"RIFFdata", b'form-data; name="file"; filename="a.wav"', b"b", b"Content-Type: audio/wav")
END = b"--b--\r\n"


def field(name: str, value: str | bytes) -> bytes:
    return part(value if isinstance(value, bytes) else value.encode(), f'form-data; name="{name}"'.encode())


def read(*parts: bytes, end: bytes = END) -> Transcription:
    reader = FormReader(b"multipart/form-data; boundary=b")
    try:
        reader.feed(b"".join(parts) + end)
        return reader.finish(SURFACE, lambda name: {"alias": "canonical"}.get(name, name))
    except ValueError:
        assert reader.failure is not None
        raise reader.failure from None
    finally:
        if reader.failure is not None:
            reader.close()


def refusal(*parts: bytes, end: bytes = END) -> str:
    reader = FormReader(b"multipart/form-data; boundary=b")
    try:
        reader.feed(b"".join(parts) + end)
        reader.finish(SURFACE, str)
    except GatewayError as error:
        failure = error
    except ValueError:
        assert reader.failure is not None
        failure = reader.failure
    else:
        raise AssertionError("it was accepted")
    finally:
        reader.close()
    assert (failure.status, failure.shape.value) == (400, "plain")
    return failure.message


def sent(call: Transcription) -> list[tuple[bytes | None, bytes | None, bytes | None, bytes]]:
    """The parts the worker gets; closes the form."""
    collector = Collector()
    boundary = boundary_of(call.form.content_type)
    assert boundary is not None
    for _ in range(2):  # a retry sends the same
        collector.parts.clear()
        parser = MultipartParser(boundary, collector)
        pieces = list(call.form)
        assert sum(map(len, pieces)) == call.form.length
        for piece in pieces:
            parser.feed(piece)
        parser.close()
    call.form.close()
    return collector.parts


def test_fields_are_sent_in_order_and_as_they_came() -> None:
    call = read(
        field("stream", "TRUE"),
        field("timestamp_granularities", "word"),
        field("unknown", "x"),
        field("temperature", "5e-1"),
        field("prompt", b"\xff p"),
        field("language", ""),
        FILE,
        field("response_format", "anything"),
        field("timestamp_granularities[]", "segment"),
        field("model", " alias "),
    )
    assert (call.model, call.stream, call.body) == ("canonical", True, None)
    assert sent(call) == [
        (b"file", b"a.wav", b"audio/wav", b"RIFFdata"),
        (b"model", None, None, b"canonical"),
        (b"language", None, None, b""),
        (b"prompt", None, None, b"\xff p"),
        (b"response_format", None, None, b"anything"),
        (b"temperature", None, None, b"5e-1"),
        (b"timestamp_granularities[]", None, None, b"word"),
        (b"timestamp_granularities[]", None, None, b"segment"),
        (b"stream", None, None, b"true"),
    ]


def test_the_last_of_repeated_parts_counts() -> None:
    second = part(b"xy", b'form-data; name="file"; filename="b"')
    call = read(FILE, second, field("model", "m"), field("model", "n"))
    assert sent(call) == [(b"file", b"b", None, b"xy"), (b"model", None, None, b"n")]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (b"", b"audio"),
        (b'; filename=""', b"audio"),
        (b'; filename="a \\" \xc3\xa9.wav"', b'a \\" \xc3\xa9.wav'),
        (b"; filename*=utf-8''a%20b", None),
    ],
)
def test_the_file_name_is_kept_and_only_a_missing_one_invented(given: bytes, name: bytes | None) -> None:
    call = read(part(b"x", b"form-data; name=file" + given), field("model", "m"))
    if name is None:
        assert b"; filename*=utf-8''a%20b\r\n" in b"".join(call.form)
    assert sent(call)[0] == (b"file", name, None, b"x")


def test_a_large_file_is_not_kept_in_memory() -> None:
    data = bytes(range(256)) * 8192
    call = read(part(data, b"form-data; name=file"), field("model", "m"))
    pieces = list(call.form)
    assert max(map(len, pieces)) <= 65_536
    assert data in b"".join(pieces)
    call.form.close()


@pytest.mark.parametrize(
    "value", ["0", "1", "1.0", ".5", "1.", "+0.5", "-0.0", "1e-3", "1E0", " 0.5", "1 \t"]
)
def test_temperatures_in_range(value: str) -> None:
    call = read(FILE, field("model", "m"), field("temperature", value))
    assert sent(call)[-1] == (b"temperature", None, None, value.strip().encode())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1.5", "1.5 (must be a finite number in [0.0, 1.0])"),
        ("2", "2 (must be a finite number in [0.0, 1.0])"),
        ("-0.1", "-0.1 (must be a finite number in [0.0, 1.0])"),
        ("nan", "nan (must be a finite number in [0.0, 1.0])"),
        ("-Infinity", "-inf (must be a finite number in [0.0, 1.0])"),
        ("1e400", "inf (must be a finite number in [0.0, 1.0])"),
        ("hot", "invalid float literal"),
        ("0_1", "invalid float literal"),
        ("0. 5", "invalid float literal"),
        ("\u0660", "invalid float literal"),
        ("", "cannot parse float from empty string"),
        (" ", "cannot parse float from empty string"),
    ],
)
def test_temperatures_that_are_none(value: str, shown: str) -> None:
    form = (FILE, field("model", "m"), field("temperature", value))
    assert refusal(*form) == f"Invalid 'temperature' value: {shown}"


@pytest.mark.parametrize("value", ["yes", "", "tRUE", "10", " 1"])
def test_streams_that_are_none(value: str) -> None:
    shown = f"Invalid 'stream' value: '{value}' (expected true/false/1/0)"
    assert refusal(FILE, field("model", "m"), field("stream", value)) == shown


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "0"])
def test_streams_that_are_off(value: str) -> None:
    call = read(FILE, field("model", "m"), field("stream", value))
    assert not call.stream
    assert sent(call)[-1] == (b"stream", None, None, b"false")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((FILE,), "Missing required 'model' field"),
        ((FILE, field("model", " ")), "Missing required 'model' field"),
        ((field("model", "m"),), "Missing required 'file' part"),
        ((field("model", "m"), part(b"", b"form-data; name=file")), "Uploaded 'file' part is empty"),
        ((FILE, part(b"", b"form-data; name=file"), field("model", "m")), "Uploaded 'file' part is empty"),
        (
            (FILE, field("model", "m"), field("prompt", "x" * (MAX_FIELD_BYTES + 1))),
            f"Failed to read the form: field 'prompt' is longer than {MAX_FIELD_BYTES} bytes",
        ),
    ],
)
def test_forms_that_lack_something(parts: tuple[bytes, ...], message: str) -> None:
    assert refusal(*parts) == message


def test_a_form_that_breaks_off() -> None:
    assert refusal(FILE, end=b"").startswith("Failed to read")
    assert refusal(end=b"garbage").startswith("Failed to read")


@pytest.mark.parametrize("content_type", [None, b"application/json", b"multipart/form-data"])
def test_what_is_no_form(content_type: bytes | None) -> None:
    with pytest.raises(GatewayError) as raised:
        FormReader(content_type)
    assert raised.value.message == "Invalid `boundary` for `multipart/form-data` request"
