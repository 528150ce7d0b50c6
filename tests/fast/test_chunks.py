"""The chunk reader against the reference, at every split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smg._fast.chunks import ChunkReader
from tests.fast.reference import chunked
from tests.fast.transports import splits

GOOD = [
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nPOST /",
    b"005;name=value\r\nhello\r\n0;last\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b'5\t;a="b"\r\nhello\r\n0\r\n\r\n',
    b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
    b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nother:\r\n\r\nrest",
    b"2\r\n\r\n\r\n0\r\n\r\n",
    b"0000000000000001\r\nx\r\n0\r\n\r\n",
]
BAD = [
    b"\r\n",
    b"ZZ\r\nhello",
    b"-5\r\nhello",
    b"+5\r\nhello",
    b"0x5\r\nhello",
    b" 5\r\nhello",
    b"5\nhello",
    b"5\rhello",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhelloXX0\r\n\r\n",
    b"5;a\nb\r\nhello",
    b"5;a\rb\r\nhello",
    b"5;\0\r\nhello",
    b"00000000000000005\r\nhello",
    b"8000000000000000\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n X: folded\r\n\r\n",
    b"0\r\n: no name\r\n\r\n",
    b"0\r\nno colon\r\n\r\n",
    b"0\r\nblank : x\r\n\r\n",
    b"0\r\nn\xe4me: x\r\n\r\n",
    b"0\r\nX: a\nb\r\n\r\n",
    b"0\r\nX: a\r\n\rX",
    b"0\r\n\n",
    b"0;" + b"e" * 20000 + b"\r\n\r\n",
    b"0\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
]


def read(pieces: tuple[bytes, ...]) -> chunked.Decoded:
    reader, payload = ChunkReader(), b""
    for number, piece in enumerate(pieces):
        found, is_whole, rest = reader.feed(piece)
        payload += b"".join(found)
        if is_whole:
            return chunked.Decoded(payload, True, rest + b"".join(pieces[number + 1 :]))
    return chunked.Decoded(payload, False, b"")


def same(got: chunked.Decoded, wanted: chunked.Decoded) -> bool:
    return (
        got.payload == wanted.payload
        and got.is_whole == wanted.is_whole
        and (not got.is_whole or got.rest == wanted.rest)
    )


@pytest.mark.parametrize("data", GOOD, ids=repr)
def test_good_bodies_at_every_split(data: bytes) -> None:
    wanted = chunked.decode(data)
    assert wanted.is_whole
    for pieces in splits(data):
        assert read(pieces) == wanted


@pytest.mark.parametrize("data", GOOD, ids=repr)
def test_unfinished_bodies(data: bytes) -> None:
    size = len(data) - len(chunked.decode(data).rest)
    for end in range(size):
        assert same(read((data[:end],)), chunked.decode(data[:end]))


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data[:40]))
def test_bad_bodies_at_every_split(data: bytes) -> None:
    for pieces in splits(data) if len(data) < 1000 else [(data,)]:
        with pytest.raises(ValueError, match="chunked"):
            read(pieces)


def test_extensions_and_trailers_have_room_but_not_without_end() -> None:
    assert read((b"0;" + b"e" * 16000 + b"\r\n\r\n",)).is_whole
    assert read((b"0\r\nX: " + b"e" * 16000 + b"\r\n\r\n",)).is_whole
    with pytest.raises(ValueError, match="chunked"):
        read((b"1;e\r\nx\r\n" * 9000,))


def test_the_largest_size_that_is_read() -> None:
    assert not read((b"7fffffffffffffff\r\nx",)).is_whole


texts = st.lists(
    st.one_of(
        st.sampled_from(
            [b"0", b"5", b"a", b"\r\n", b"\r", b"\n", b";", b" ", b":", b"X: y\r\n", b"0\r\n\r\n", b"g"]
        ),
        st.binary(max_size=6),
        st.binary(max_size=20).map(lambda piece: chunked.encode(piece, end=False) if piece else b""),
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=400, derandomize=True)
@given(texts, st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes_are_read_as_the_reference_reads_them(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = tuple(data[a:b] for a, b in pairwise(edges))
    try:
        wanted = chunked.decode(data)
    except ValueError:
        with pytest.raises(ValueError, match="chunked"):
            read(pieces)
    else:
        assert same(read(pieces), wanted)
