"""Edits of a text by its spans: what has to change is cut out and replaced, the rest stays as it was sent.

The edits are flat memory, without an object for each: a large body may need some hundred thousand of them,
and what takes or frees so many objects keeps the loop from running.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawRealloc
from libc.stdlib cimport qsort
from libc.string cimport memcpy

Edit = tuple[int, int, bytes]     # start, end, what stands there instead


cdef int _by_place(const void* left, const void* right) noexcept nogil:
    cdef const Cut* a = <const Cut*>left
    cdef const Cut* b = <const Cut*>right
    if a.start != b.start:
        return -1 if a.start < b.start else 1
    return -1 if a.order < b.order else 1


cdef void _sort(Cut* edits, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(1, count):
        if edits[i].start < edits[i - 1].start:
            qsort(edits, count, sizeof(Cut), _by_place)
            return


cdef Py_ssize_t _edited_size(const Cut* edits, Py_ssize_t count, Py_ssize_t length) noexcept nogil:
    """Length of the edited text, -1 when edits overlap or leave the text."""
    cdef Py_ssize_t i, at = 0, size = length
    for i in range(count):
        if edits[i].start < at or edits[i].end < edits[i].start or edits[i].end > length:
            return -1
        at = edits[i].end
        size += edits[i].size - (edits[i].end - edits[i].start)
    return size


cdef void _copy_edited(const char* source, Py_ssize_t length, const Cut* edits, Py_ssize_t count,
                       char* target) noexcept nogil:
    cdef Py_ssize_t i, at = 0
    for i in range(count):
        memcpy(target, source + at, edits[i].start - at)
        target += edits[i].start - at
        memcpy(target, edits[i].data if edits[i].data != NULL else edits[i].held, edits[i].size)
        target += edits[i].size
        at = edits[i].end
    memcpy(target, source + at, length - at)


cdef class Edits:
    """Those of one text, in any order. Edits at the same place come in the order given."""

    def __init__(self, bytes text not None):
        self.text = text
        self._kept = []

    def __dealloc__(self):
        free_memory(self._list, self._room * <Py_ssize_t>sizeof(Cut))

    def __len__(self):
        return self._count

    cdef void keep(self, bytes data) except *:
        """Let `data`, which edits point to, live as long as they do."""
        if PyBytes_GET_SIZE(data) > SHORT:
            self._kept.append(data)

    cdef int _grow(self) noexcept nogil:
        cdef Py_ssize_t room = self._room * 2 + 8
        cdef Cut* grown = <Cut*>PyMem_RawRealloc(self._list, room * sizeof(Cut))
        if grown == NULL:
            return -1
        self._room = room
        self._list = grown
        return 0

    cdef int _make_room(self) except -1:
        """Grow for one more edit, without the interpreter when that takes long."""
        cdef int ended
        if self._count < self._room or self._count <= LARGE // <Py_ssize_t>sizeof(Cut):
            return 0
        with nogil:
            ended = self._grow()
        if ended < 0:
            raise MemoryError
        return 0

    cdef int add(self, Py_ssize_t start, Py_ssize_t end, const char* data, Py_ssize_t size) noexcept nogil:
        """Plan that `data` stands in the place of a span; more than SHORT bytes of it must outlive the edits.
        -1: out of memory."""
        cdef Cut* one
        if self._count == self._room and self._grow() < 0:
            return -1
        one = &self._list[self._count]
        one.start, one.end, one.order, one.size = start, end, self._count, size
        one.data = data
        if size <= SHORT:
            one.data = NULL
            memcpy(one.held, data, size)
        self._count += 1
        return 0

    def put(self, Py_ssize_t start, Py_ssize_t end, bytes written not None):
        """Plan that `written` stands in the place of a span."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(written)
        self._make_room()
        self.keep(written)
        if self.add(start, end, PyBytes_AS_STRING(written), size) < 0:
            raise MemoryError

    def repeat(self, Py_ssize_t place, Py_ssize_t start, Py_ssize_t end):
        """Plan that a span of the text stands once more at another place."""
        cdef const char* source = PyBytes_AS_STRING(self.text) + start
        if not 0 <= start <= end <= PyBytes_GET_SIZE(self.text):
            raise ValueError("outside of the text")
        self._make_room()
        if self.add(place, place, source, end - start) < 0:
            raise MemoryError

    def apply(self):
        """The edited text. Raises ValueError when edits overlap."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(self.text), size
        cdef bytes result
        cdef const char* source = PyBytes_AS_STRING(self.text)
        cdef char* target
        if not self._count:
            return self.text
        with nogil:
            _sort(self._list, self._count)
            size = _edited_size(self._list, self._count, length)
        if size < 0:
            raise ValueError("edits overlap or leave the text")
        result = PyBytes_FromStringAndSize(NULL, size)
        target = PyBytes_AS_STRING(result)
        if size < LARGE:
            _copy_edited(source, length, self._list, self._count, target)
        else:
            with nogil:
                _copy_edited(source, length, self._list, self._count, target)
        return result


def splice(bytes text, edits):
    """`text` with the spans of `edits`, (start, end, bytes) in any order, replaced.

    Edits at the same place come in the order given. Raises ValueError when edits overlap.
    """
    cdef Edits planned = Edits(text)
    for start, end, written in edits:
        planned.put(start, end, written)
    return planned.apply()
