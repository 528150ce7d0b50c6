"""What a check has found in a body: known members by slot, places it was asked to tell about, and their edits."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawRealloc
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from smg._fast.jsonedit cimport LARGE, Edits, free_memory
from smg._fast.jsonscan cimport Scan, scan_colon, scan_key, scan_next, scan_open, scan_value
from smg._fast.jsonspan cimport Member, Members


cdef int _remove(Scan* s, const Mark* mark, Edits edits) noexcept nogil:
    """Plan to take a marked member out, with the comma before it, or, of the first one, the comma behind it."""
    cdef Py_ssize_t start = mark.member.key, end = mark.member.value_end, before = -1
    s.at = s.text + mark.holder
    scan_open(s)
    while s.at < s.text + mark.member.key:
        if scan_key(s) < 0 or scan_colon(s) < 0 or scan_value(s, 1) < 0:
            return -1
        before = s.at - s.text
        scan_next(s, 123)
    if before >= 0:
        start = before
    else:
        s.at = s.text + end
        if scan_next(s, 123) > 0:
            end = s.at - s.text
    return edits.add(start, end, "", 0)


@cython.final
cdef class Found(Members):
    """The members of the outermost object, known ones by slot, and marks. Each slot and each kind of mark is a bit."""

    def __cinit__(self):
        memset(self._places, 255, sizeof(self._places))

    def __dealloc__(self):
        free_memory(self._marks, self._mark_room * <Py_ssize_t>sizeof(Mark))

    cdef int add_mark(self, const Mark* mark) noexcept nogil:
        cdef Mark* grown
        if self._mark_count == self._mark_room:
            grown = <Mark*>PyMem_RawRealloc(self._marks, (self._mark_room * 2 + 8) * sizeof(Mark))
            if grown == NULL:
                return -1
            self._mark_room = self._mark_room * 2 + 8
            self._marks = grown
        self._marks[self._mark_count] = mark[0]
        self._mark_count += 1
        self._marked |= mark.kind
        return 0

    @property
    def present(self):
        """Bits of the slots whose members are there and not null."""
        return self._present

    @property
    def marked(self):
        """Bits of the marks that were met."""
        return self._marked

    @property
    def breached(self):
        """Bits of the slots in which a value breaks a bound."""
        return self._breached

    def breaches(self):
        """The first value that breaks a bound of each such slot: (slot, its start, its end, item)."""
        return self._breaches

    def place(self, int slot):
        """(key, end of key, value, end of value) of a known member that is there, null or not; else None."""
        cdef const Member* one
        if self._places[slot] < 0:
            return None
        one = &self._list[self._places[slot]]
        return one.key, one.key_end, one.value, one.value_end

    def value(self, int slot):
        """A known member's value as written; None when it is absent."""
        cdef const Member* one
        cdef const char* source
        cdef char* target
        cdef Py_ssize_t size
        cdef bytes written
        if self._places[slot] < 0:
            return None
        one = &self._list[self._places[slot]]
        size = one.value_end - one.value
        if size < LARGE:
            return self.text[one.value:one.value_end]
        written = PyBytes_FromStringAndSize(NULL, size)
        source, target = PyBytes_AS_STRING(self.text) + one.value, PyBytes_AS_STRING(written)
        with nogil:
            memcpy(target, source, size)
        return written

    def marks(self, uint64_t kinds):
        """Give (kind, item, start of its object, key, end of key, value, end of value) of the marks of some
        kinds, in the order of the text."""
        cdef Py_ssize_t i
        cdef Mark one
        for i in range(self._mark_count):
            one = self._marks[i]
            if kinds & one.kind:
                yield (one.kind, one.item, one.holder, one.member.key, one.member.key_end, one.member.value,
                       one.member.value_end)

    def rename_marked(self, Edits edits not None, uint64_t kinds, bytes name not None):
        """Plan another name, written with its quotes, for the marked members of some kinds."""
        cdef const char* written = PyBytes_AS_STRING(name)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(name), i
        cdef const Mark* one
        cdef int ended = 0
        edits.keep(name)
        with nogil:
            for i in range(self._mark_count):
                one = &self._marks[i]
                if kinds & one.kind:
                    ended |= edits.add(one.member.key, one.member.key_end, written, size)
        if ended:
            raise MemoryError

    def remove_marked(self, Edits edits not None, uint64_t kinds):
        """Plan to take the marked members of some kinds out, with the commas that go with them."""
        cdef Scan s
        cdef Py_ssize_t i
        cdef int ended = 0
        s.text = PyBytes_AS_STRING(self.text)
        s.end = s.text + PyBytes_GET_SIZE(self.text)
        with nogil:
            for i in range(self._mark_count):
                if kinds & self._marks[i].kind:
                    ended |= _remove(&s, &self._marks[i], edits)
        if ended:
            raise MemoryError
