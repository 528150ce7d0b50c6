"""Forms are read the same however their bytes are cut, and refused when they are not exactly forms."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.api.multipart import FormError, MultipartParser, Part, boundary_of, read_parameters


class Collector:
    """Keeps (name, file name, content type, data) of each part."""

    def __init__(self) -> None:
        self.parts: list[tuple[bytes | None, bytes | None, bytes | None, bytes]] = []
        self._part: Part | None = None
        self._data = bytearray()

    def begin(self, part: Part) -> None:
        assert self._part is None
        self._part = part
        self._data.clear()

    def data(self, piece: bytes) -> None:
        assert piece
        self._data += piece

    def end(self) -> None:
        part = self._part
        assert part is not None
        self.parts.append((part.name, part.file_name, part.content_type, bytes(self._data)))
        self._part = None


def read(
    *pieces: bytes, boundary: bytes = b"b"
) -> list[tuple[bytes | None, bytes | None, bytes | None, bytes]]:
    collector = Collector()
    parser = MultipartParser(boundary, collector)
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    return collector.parts


def part(
    data: bytes, disposition: bytes = b'form-data; name="f"', boundary: bytes = b"b", *lines: bytes
) -> bytes:
    headers = b"".join(line + b"\r\n" for line in (b"Content-Disposition: " + disposition, *lines))
    return b"--" + boundary + b"\r\n" + headers + b"\r\n" + data + b"\r\n"


FORM = (
    part(
        b"RIFF\r\n--bx\r-\r\n-",
        b'form-data; name="file"; filename="a.wav"',
        b"bb",
        b"Content-Type: audio/wav",
    )
    + part(b"", b'form-data; name="empty"', b"bb")
    + part(b"\r\n\r\n", b"form-data; name=token", b"bb")
    + b"--bb--\r\nepilogue --bb"
)
PARTS = [
    (b"file", b"a.wav", b"audio/wav", b"RIFF\r\n--bx\r-\r\n-"),
    (b"empty", None, None, b""),
    (b"token", None, None, b"\r\n\r\n"),
]


def test_parts_of_a_form() -> None:
    assert read(FORM, boundary=b"bb") == PARTS


def test_every_split_gives_the_same_parts() -> None:
    for at in range(len(FORM) + 1):
        assert read(FORM[:at], FORM[at:], boundary=b"bb") == PARTS, at
    assert read(*(FORM[at : at + 1] for at in range(len(FORM))), boundary=b"bb") == PARTS


@given(
    values=st.lists(
        st.binary(max_size=40) | st.sampled_from([b"\r\n--", b"\r", b"\r\n--bounda"]), max_size=4
    ),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    preamble=st.sampled_from([b"", b"\r\n", b"hello\r\n"]),
)
def test_any_cut_of_any_values_gives_them_back(values: list[bytes], cuts: list[int], preamble: bytes) -> None:
    boundary = b"boundary'12"
    form = (
        preamble
        + b"".join(part(v, b"form-data; name=f", boundary) for v in values)
        + b"--"
        + boundary
        + b"--"
    )
    points = sorted({min(cut, len(form)) for cut in cuts} | {0, len(form)})
    pieces = [form[a:b] for a, b in itertools.pairwise(points)]
    assert [data for *_, data in read(*pieces, boundary=boundary)] == values


@given(
    form=st.binary(max_size=200).map(lambda tail: b"--b\r\n" + tail),
    cuts=st.lists(st.integers(0, 210), max_size=8),
)
def test_any_bytes_end_the_same_however_they_are_cut(form: bytes, cuts: list[int]) -> None:
    def outcome(*pieces: bytes) -> object:
        try:
            return read(*pieces)
        except FormError as error:
            return str(error)

    points = sorted({min(cut, len(form)) for cut in cuts} | {0, len(form)})
    assert outcome(*(form[a:b] for a, b in itertools.pairwise(points))) == outcome(form)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (b"", "the form ends early"),
        (b"garbage", "the form ends early"),
        (part(b"x"), "the form ends early"),
        (part(b"x") + b"--b", "the form ends early"),
        (part(b"x") + b"--b-", "the form ends early"),
        (b"--b\r\nContent-Disposition: form-data; name=f\r\n\r\nabc", "the form ends early"),
        (b"--bx\r\n", "malformed boundary line"),
        (b"--b \t x", "malformed boundary line"),
        (b"--b" + b" " * 65 + b"\r\n", "malformed boundary line"),
        (b"--b\r\nno colon\r\n\r\nx", "malformed headers of a part"),
        (b"--b\r\n folded: x\r\n\r\nx", "malformed headers of a part"),
        (b"--b\r\nX: a\x00b\r\n\r\nx", "malformed headers of a part"),
        (b"--b\r\nX: a\nb\r\n\r\nx", "malformed headers of a part"),
        (part(b"x", b"attachment; name=f"), "a part is no form-data"),
        (part(b"x", b'form-data; name="f'), "malformed parameters of a header"),
        (part(b"x", b"form-data; name=f; name=g"), "a parameter of a header is given twice"),
        (b"--b\r\nX: " + b"y" * 8190 + b"\r\n\r\n", "the headers of a part are too long"),
        (part(b"x") * 65, "more than 64 parts"),
        (b"x" * 70_000, "no boundary found"),
    ],
)
def test_what_is_no_form_is_refused(form: bytes, problem: str) -> None:
    for size in (len(form) or 1, 1 if len(form) < 9000 else 1000):
        with pytest.raises(FormError, match=problem):
            read(*(form[at : at + size] for at in range(0, len(form), size)))


def test_a_part_without_headers_has_no_name() -> None:
    assert read(b"--b\r\n\r\nx\r\n--b--") == [(None, None, None, b"x")]


def test_the_longest_headers_and_padding_are_read() -> None:
    line = b"Y: " + b"y" * (8190 - 3 - len(b"Content-Disposition: form-data; name=f\r\n"))
    form = (
        part(b"x", b"form-data; name=f", b"b", line).replace(b"--b\r", b"--b" + b" " * 64 + b"\r") + b"--b--"
    )
    assert [data for *_, data in read(form)] == [b"x"]
    assert [data for *_, data in read(*(form[at : at + 1] for at in range(len(form))))] == [b"x"]


@pytest.mark.parametrize(
    ("value", "parameters"),
    [
        (b'form-data; name="a\\"b"; filename="\xc3\xa9;x"', {b"name": b'a\\"b', b"filename": b"\xc3\xa9;x"}),
        (b"form-data ; NAME = a ;", {b"name": b"a"}),
        (b"form-data; filename*=utf-8''x%20y", {b"filename*": b"utf-8''x%20y"}),
        (b"form-data", {}),
    ],
)
def test_parameters_are_kept_as_written(value: bytes, parameters: dict[bytes, bytes]) -> None:
    assert read_parameters(value) == (b"form-data", parameters)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=b", b"b"),
        (b'Multipart/Form-Data; charset=utf-8; Boundary="a b"', b"a b"),
        (b"multipart/form-data; boundary=" + b"b" * 70, b"b" * 70),
        (b"multipart/form-data; boundary=" + b"b" * 71, None),
        (b"multipart/form-data", None),
        (b"multipart/form-data; boundary=", None),
        (b'multipart/form-data; boundary="a "', None),
        (b'multipart/form-data; boundary="a', None),
        (b"multipart/mixed; boundary=b", None),
        (b"application/json", None),
        (None, None),
    ],
)
def test_the_boundary_of_a_content_type(content_type: bytes | None, boundary: bytes | None) -> None:
    assert boundary_of(content_type) == boundary
