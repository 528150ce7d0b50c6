from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from smg._fast.holders cimport Holders
from smg._fast.pool cimport Pool, Record, record


# Reads the bytes of several spans as one text, block by block.
cdef struct Text:
    const uint8_t* body
    const int64_t* spans
    Py_ssize_t span_count
    Py_ssize_t span              # the one being read
    Py_ssize_t at                # in the body
    Py_ssize_t left              # bytes of the text not yet read
    Py_ssize_t done
    Py_ssize_t size              # of the last block
    uint64_t hash                # of all up to its end
    uint8_t gathered[1024]


cdef class TextIndex:
    cdef readonly Py_ssize_t max_bytes
    cdef readonly Py_ssize_t size        # bytes of text known, each shared prefix once
    cdef int _evictions                  # for the present insert
    cdef Pool _pool
    cdef Holders _holders
    cdef uint64_t _secrets[8]

    cdef Py_ssize_t find_depths(self, Text* text, int* out, Py_ssize_t room) noexcept
    cdef Py_ssize_t find_best(self, Text* text, uint32_t* holders) noexcept
    cdef Py_ssize_t add(self, Text* text, uint32_t worker) noexcept

    cdef uint64_t _next_block(self, Text* text) noexcept
    cdef bint _make_room(self, Py_ssize_t size, uint32_t at) noexcept
    cdef void _evict(self, uint32_t number) noexcept
