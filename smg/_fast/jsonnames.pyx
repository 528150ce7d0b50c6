"""The names that a text gives, such as those of its tools: which came before, and which were crossed off."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

from smg._fast.jsonedit cimport free_memory
from smg._fast.jsonspan cimport text_of

cdef enum:
    _HASHED = 1 << 16      # bytes of a name in one step


cdef struct Entry:
    Py_hash_t hash
    Py_ssize_t start
    Py_ssize_t end
    bint crossed


cdef Py_hash_t _hash_of(bytes name) except? -1:
    """Of a long name in steps, between which the interpreter is let go."""
    cdef Py_ssize_t at
    cdef object hashed = 0
    if PyBytes_GET_SIZE(name) <= _HASHED:
        return hash(name)
    for at in range(0, PyBytes_GET_SIZE(name), _HASHED):
        hashed = hash((hashed, name[at:at + _HASHED]))
        with nogil:
            pass
    return hashed


@cython.final
cdef class Names:
    """JSON strings of `text`, by their spans, quotes included. A hundred thousand are no objects, but flat memory:
    what frees so many objects at once keeps the loop from running."""
    cdef bytes _text
    cdef Entry* _entries
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef uint32_t* _table       # numbers of entries, counted from 1, by hash
    cdef Py_ssize_t _mask

    def __init__(self, bytes text not None):
        self._text = text
        if self._grow() < 0:
            raise MemoryError

    def __dealloc__(self):
        free_memory(self._entries, self._room * <Py_ssize_t>sizeof(Entry))
        free_memory(self._table, (self._mask + 1) * <Py_ssize_t>sizeof(uint32_t))

    def __len__(self):
        return self._count

    def add(self, Py_ssize_t start, Py_ssize_t end):
        """Add a name; False when it is there."""
        cdef bytes name = text_of(self._text, start, end)
        cdef Py_hash_t hashed = _hash_of(name)
        cdef Py_ssize_t place = self._find(name, hashed, start, end)
        cdef Entry* one
        cdef int ended
        if self._table[place]:
            return False
        one = &self._entries[self._count]
        one.hash, one.start, one.end, one.crossed = hashed, start, end, False
        self._count += 1
        self._table[place] = <uint32_t>self._count
        if self._count == self._room:
            with nogil:
                ended = self._grow()
            if ended < 0:
                raise MemoryError
        return True

    def __contains__(self, bytes name not None):
        """Is there that name, as UTF-8?"""
        return self._table[self._find(name, _hash_of(name), 0, 0)] != 0

    def cross_off(self, Py_ssize_t start, Py_ssize_t end):
        """Cross a name off; False when it is not there, or crossed off already."""
        cdef bytes name = text_of(self._text, start, end)
        cdef uint32_t number = self._table[self._find(name, _hash_of(name), start, end)]
        if not number or self._entries[number - 1].crossed:
            return False
        self._entries[number - 1].crossed = True
        return True

    def left(self):
        """The span of the first name that is not crossed off; None when none is left."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self._count):
                if not self._entries[i].crossed:
                    break
            else:
                i = -1
        return None if i < 0 else (self._entries[i].start, self._entries[i].end)

    cdef Py_ssize_t _find(self, bytes name, Py_hash_t hashed, Py_ssize_t start, Py_ssize_t end) except -1:
        """The place in the table of a name, or where it belongs."""
        cdef Py_ssize_t at = hashed & self._mask
        cdef const char* text = PyBytes_AS_STRING(self._text)
        cdef const Entry* one
        while self._table[at]:
            one = &self._entries[self._table[at] - 1]
            if one.hash == hashed:
                if one.end - one.start == end - start and memcmp(text + one.start, text + start, end - start) == 0:
                    break
                if text_of(self._text, one.start, one.end) == name:
                    break
            at = (at + 1) & self._mask
        return at

    cdef int _grow(self) noexcept nogil:
        """Make room for as many again; the table stays half empty."""
        cdef Py_ssize_t room = self._room * 2 if self._room else 32, mask = room * 2 - 1, i, at
        cdef Entry* entries = <Entry*>PyMem_RawRealloc(self._entries, room * sizeof(Entry))
        cdef uint32_t* table
        if entries == NULL:
            return -1
        self._entries = entries
        self._room = room
        table = <uint32_t*>PyMem_RawCalloc(mask + 1, sizeof(uint32_t))
        if table == NULL:
            return -1
        for i in range(self._count):
            at = entries[i].hash & mask
            while table[at]:
                at = (at + 1) & mask
            table[at] = <uint32_t>(i + 1)
        PyMem_RawFree(self._table)
        self._table, self._mask = table, mask
        return 0
