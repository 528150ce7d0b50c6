"""A text as spans of a request's body, read block by block; no text is kept or joined.

A block's key is a hash of it and of all before it, so equal keys mean equal prefixes; a collision costs a wrong
worker. Blocks are small where texts begin and grow with depth, which keeps long prompts cheap and the error within 6 %:
see `block_ends`.
"""
cimport cython
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from secrets import token_bytes


cdef extern from *:
    """
    static inline uint64_t smg_word(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
    static inline uint64_t smg_folded(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    /* Multiply and fold, as in XXH3's middle sizes, with a process's own secrets. */
    static inline uint64_t smg_block_hash(uint64_t hash, const uint8_t *p, size_t size, const uint64_t *secrets) {
        uint8_t padded[16] = {0};
        hash ^= secrets[7] + size;
        for (; size >= 64; p += 64, size -= 64) {
            uint64_t a = smg_folded(smg_word(p) ^ secrets[0], smg_word(p + 8) ^ secrets[1]);
            uint64_t b = smg_folded(smg_word(p + 16) ^ secrets[2], smg_word(p + 24) ^ secrets[3]);
            uint64_t c = smg_folded(smg_word(p + 32) ^ secrets[4], smg_word(p + 40) ^ secrets[5]);
            uint64_t d = smg_folded(smg_word(p + 48) ^ secrets[6], smg_word(p + 56) ^ secrets[7]);
            hash = smg_folded(hash + (a ^ b) + (c ^ d), secrets[0]) ^ a ^ c;
        }
        for (; size >= 16; p += 16, size -= 16)
            hash = smg_folded(smg_word(p) ^ secrets[1] ^ hash, smg_word(p + 8) ^ secrets[2]) + hash;
        if (size) {
            memcpy(padded, p, size);
            hash = smg_folded(smg_word(padded) ^ secrets[3] ^ hash, smg_word(padded + 8) ^ secrets[4]) + hash;
        }
        hash = (hash ^ (hash >> 32)) * secrets[5];
        return hash ^ (hash >> 29);
    }
    """
    uint64_t smg_block_hash(uint64_t hash, const uint8_t* p, size_t size, const uint64_t* secrets) noexcept


cdef inline Py_ssize_t _block_size(Py_ssize_t at) noexcept:
    return 32 if at < 64 else 64 if at < 2048 else 128 if at < 16384 else 256 if at < 262144 else 1024


cdef void draw_secrets(uint64_t* secrets):
    """Eight numbers that nobody can know: texts with equal keys cannot be made."""
    cdef int i
    for i in range(8):
        secrets[i] = int.from_bytes(token_bytes(8), "little") | 1


def block_ends(Py_ssize_t size):
    """Where the blocks of a text of `size` bytes end; what is left at its end is a block of its own."""
    ends = []
    cdef Py_ssize_t at = 0
    while at < size:
        at = min(at + _block_size(at), size)
        ends.append(at)
    return ends


@cython.final
cdef class Opened:
    """The buffers of one call, for as long as it lasts."""

    def __cinit__(self, object body, object spans):
        cdef Py_ssize_t total = 0, i
        cdef const int64_t* pairs
        PyObject_GetBuffer(body, &self.body, PyBUF_SIMPLE)
        PyObject_GetBuffer(spans, &self.spans, PyBUF_C_CONTIGUOUS)
        if self.spans.itemsize not in (1, 8) or self.spans.len % 16:
            raise ValueError("spans are pairs of 64-bit integers")
        pairs = <const int64_t*>self.spans.buf
        for i in range(0, self.spans.len // 8, 2):
            if not 0 <= pairs[i] <= pairs[i + 1] <= self.body.len:
                raise ValueError("a span outside the body")
            total += pairs[i + 1] - pairs[i]
        self.text.body = <const uint8_t*>self.body.buf
        self.text.spans = pairs
        self.text.span_count = self.spans.len // 16
        self.text.at = pairs[0] if self.text.span_count else 0
        self.text.left = total

    def __dealloc__(self):
        PyBuffer_Release(&self.spans)
        PyBuffer_Release(&self.body)


cdef uint64_t next_block(Text* text, const uint64_t* secrets) noexcept:
    """Read on by one block, and give its key."""
    cdef Py_ssize_t size = min(_block_size(text.done), text.left), filled = 0, part
    cdef const uint8_t* block
    while text.at == text.spans[2 * text.span + 1]:
        text.span += 1
        text.at = text.spans[2 * text.span]
    if text.spans[2 * text.span + 1] - text.at >= size:
        block = text.body + text.at
        text.at += size
    else:
        block = text.gathered
        while filled < size:
            while text.at == text.spans[2 * text.span + 1]:
                text.span += 1
                text.at = text.spans[2 * text.span]
            part = min(size - filled, text.spans[2 * text.span + 1] - text.at)
            memcpy(text.gathered + filled, text.body + text.at, part)
            text.at += part
            filled += part
    text.size = size
    text.done += size
    text.left -= size
    text.hash = smg_block_hash(text.hash, block, size, secrets)
    return (text.hash & ~<uint64_t>SIZE_MASK) | <uint64_t>(size - 1)
