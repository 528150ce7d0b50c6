from libc.stdint cimport uint32_t, uint64_t

from smg._fast.index cimport Index
from smg._fast.pool cimport Pool, Record, record
from smg._fast.textblocks cimport Text


cdef enum:
    _MOST_KEYS = 1024


cdef class TextIndex(Index):
    cdef readonly Py_ssize_t max_bytes
    cdef readonly Py_ssize_t size        # bytes of text known, each shared prefix once
    cdef uint64_t _secrets[8]
    # What the last `best` has read and found, for the insert of the same text; gone with any block.
    cdef object _body
    cdef object _spans
    cdef Text _text
    cdef Py_ssize_t _key_count
    cdef uint64_t _keys[_MOST_KEYS]
    cdef uint32_t _numbers[_MOST_KEYS]

    cdef Py_ssize_t find_best(self, Text* text, uint32_t* holders) noexcept
    cdef Py_ssize_t add(self, Text* text, uint32_t worker, Py_ssize_t read) noexcept

    cdef bint _make_room(self, Py_ssize_t size, uint32_t at) noexcept
    cdef void _evict(self, uint32_t number) noexcept
