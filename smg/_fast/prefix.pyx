"""Hashes (XXH3-64) of how a prompt begins, and the token hint that a client sends.

Tokens are hashed as little-endian 32-bit numbers, text as the bytes it is written with: equal beginnings have equal
hashes in every process and on every machine of that byte order.
"""
from cpython cimport array
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t

import array

from xxhash import xxh3_64, xxh3_64_intdigest

cdef array.array _IDS = array.array("I")


def routing_tokens(bytes value not None):
    """The ids of a hint, `1,2,3`: decimal, 32 bits, at most 512 of them in at most 4096 bytes; None when malformed."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(value), count
    cdef array.array ids
    if not 0 < size <= MAX_HINT_BYTES:
        return None
    ids = array.clone(_IDS, min(size // 2 + 1, <Py_ssize_t>MAX_TOKENS), False)
    count = read_ids(PyBytes_AS_STRING(value), size, <uint32_t*>ids.data.as_uints)
    if count == 0:
        return None
    array.resize(ids, count)
    return ids


cdef Py_ssize_t read_ids(const char* text, Py_ssize_t size, uint32_t* ids) noexcept:
    """Their number, 0 when malformed; `ids` has room for half of `size` rounded up, or MAX_TOKENS."""
    cdef Py_ssize_t at = 0, count = 0, begin
    cdef uint64_t number
    cdef unsigned char digit
    while True:
        begin = at
        number = 0
        while at < size:
            digit = <unsigned char>(<unsigned char>text[at] - 48)
            if digit > 9:
                break
            number = number * 10 + digit
            if number > 0xFFFFFFFFU:
                return 0
            at += 1
        if at == begin or count == MAX_TOKENS:
            return 0
        ids[count] = <uint32_t>number
        count += 1
        if at == size:
            return count
        if text[at] != 44:
            return 0
        at += 1


def token_hash(object tokens, Py_ssize_t count):
    """Of the first `count` tokens, or of all where there are fewer."""
    view = _four_byte_items(tokens)
    return xxh3_64_intdigest(view[:4 * max(count, 0)])


def token_hashes(object tokens, object boundaries):
    """(boundary, hash) of the first so many tokens, for each boundary that the tokens reach, as they come."""
    view = _four_byte_items(tokens)
    cdef Py_ssize_t size = len(view) // 4, boundary, done = 0
    hashes = []
    state = xxh3_64()
    for boundary in boundaries:
        if boundary > size:
            continue
        if boundary < done:
            raise ValueError("boundaries must ascend")
        state.update(view[4 * done:4 * boundary])
        done = boundary
        hashes.append((boundary, state.intdigest()))
    return hashes


cdef object _four_byte_items(object tokens):
    view = memoryview(tokens)
    if view.itemsize != 4 or not view.c_contiguous:
        raise ValueError("a contiguous buffer of 32-bit integers is needed")
    return view.cast("B")


def text_hash(object body, object spans, Py_ssize_t characters):
    """Of the first so many characters of a JSON text: the spans of a body, pairs of 64-bit integers.

    A character counts once however it is written, but it is hashed as it is written.
    """
    cdef Py_buffer text, pairs
    cdef Py_ssize_t i, end
    cdef const int64_t* span
    state = xxh3_64()
    PyObject_GetBuffer(body, &text, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(spans, &pairs, PyBUF_C_CONTIGUOUS)
        try:
            if pairs.itemsize not in (1, 8) or pairs.len % 16:
                raise ValueError("spans are pairs of 64-bit integers")
            span = <const int64_t*>pairs.buf
            for i in range(0, pairs.len // 8, 2):
                if not 0 <= span[i] <= span[i + 1] <= text.len:
                    raise ValueError("a span outside the body")
                if characters > 0:
                    end = head_end(<const char*>text.buf, span[i], span[i + 1], &characters)
                    state.update((<const char*>text.buf)[span[i]:end])
        finally:
            PyBuffer_Release(&pairs)
    finally:
        PyBuffer_Release(&text)
    return state.intdigest()


cdef Py_ssize_t head_end(const char* body, Py_ssize_t at, Py_ssize_t end, Py_ssize_t* characters) noexcept:
    """Where so many characters of the inside of a JSON string end; they are counted down."""
    while at < end and characters[0] > 0:
        if body[at] == 92:
            at += _escape_size(body, at, end)
        else:
            at += 1
            while at < end and (<unsigned char>body[at] & 0xC0) == 0x80:
                at += 1
        characters[0] -= 1
    return min(at, end)


cdef Py_ssize_t _escape_size(const char* body, Py_ssize_t at, Py_ssize_t end) noexcept:
    """Bytes of the escape at the backslash `at`; two halves of one character are one escape."""
    if end - at < 6 or body[at + 1] != b"u":
        return 2
    if end - at >= 12 and _is_half(body + at, b"8", b"b") and _is_half(body + at + 6, b"c", b"f"):
        return 12
    return 6


cdef bint _is_half(const char* escape, char first, char last) noexcept:
    """`\\udX..` with X from `first` to `last`, in either case."""
    cdef char digit = escape[3] | 32 if escape[3] >= b"A" else escape[3]
    cdef bint is_in = first <= digit <= last and (digit <= b"9" or digit >= b"a")
    return escape[0] == b"\\" and escape[1] == b"u" and (escape[2] | 32) == b"d" and is_in
