"""The spans of an object's members and of an array's elements, and edits by span.

A worker gets the client's own bytes; what has to change is cut out by span and replaced, so that
number spelling, key order, white space and unknown members stay as they were sent.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy

from smg._fast.jsonscan cimport (
    DEEPEST,
    Scan,
    scan_colon,
    scan_end,
    scan_key,
    scan_next,
    scan_open,
    scan_value,
    skip_blanks,
)

MAX_DEPTH = DEEPEST
Edit = tuple[int, int, bytes]     # start, end, what stands there instead

cdef enum:
    _LARGE = 1 << 16       # bytes from which the interpreter is let go while they are read or copied
    _BREATH = 1 << 12      # edits after which it is let go while they are listed


class JsonError(ValueError):
    """Not JSON; `position` is the offset in bytes where it stopped to be."""

    def __init__(self, str message, Py_ssize_t position):
        super().__init__(message)
        self.position = position


cdef class Members:
    """The members of a JSON object, in order, by their spans in `text`."""

    def __dealloc__(self):
        PyMem_RawFree(self._list)

    cdef int _add(self, const Member* member) noexcept nogil:
        cdef Member* grown
        if self._count == self._room:
            grown = <Member*>PyMem_RawRealloc(self._list, (self._room * 2 + 16) * sizeof(Member))
            if grown == NULL:
                return -1
            self._room = self._room * 2 + 16
            self._list = grown
        self._list[self._count] = member[0]
        self._count += 1
        return 0

    cdef bint _is_named(self, Py_ssize_t index, bytes name) except -1:
        cdef const Member* one = &self._list[index]
        cdef Py_ssize_t size = one.key_end - one.key - 2
        if one.escaped:
            return unescape(self.text[one.key:one.key_end]) == name
        return size == PyBytes_GET_SIZE(name) and memcmp(
            PyBytes_AS_STRING(self.text) + one.key + 1, PyBytes_AS_STRING(name), size
        ) == 0

    cdef Py_ssize_t _find(self, bytes name) except -2:
        """Index of the last member of that name (a repeated key keeps its last value), or -1."""
        cdef Py_ssize_t i = self._count
        while i > 0:
            i -= 1
            if self._is_named(i, name):
                return i
        return -1

    def __len__(self):
        return self._count

    def __contains__(self, bytes name):
        return self._find(name) >= 0

    def names(self):
        """The names in order, escapes resolved."""
        cdef Py_ssize_t i
        return [unescape(self.text[self._list[i].key:self._list[i].key_end]) for i in range(self._count)]

    def raw(self, bytes name):
        """A member's value as written, or None."""
        cdef Py_ssize_t i = self._find(name)
        if i < 0:
            return None
        return self.text[self._list[i].value:self._list[i].value_end]

    def span(self, bytes name):
        """Where a member's value stands in `text`, or None."""
        cdef Py_ssize_t i = self._find(name)
        return None if i < 0 else (self._list[i].value, self._list[i].value_end)

    def replace(self, bytes name, bytes value):
        """`text` with the value of every member of that name replaced. Raises KeyError."""
        cdef Py_ssize_t i
        cdef list edits = [
            (self._list[i].value, self._list[i].value_end, value)
            for i in range(self._count) if self._is_named(i, name)
        ]
        if not edits:
            raise KeyError(name)
        return splice(self.text, edits)

    def removals(self, *names):
        """The edits that take every member of those names out, with the commas that go with them."""
        cdef Py_ssize_t i, last = self._count - 1
        cdef bint leading = True, gone
        cdef list edits = []
        for i in range(self._count):
            gone = False
            for name in names:
                gone = gone or self._is_named(i, name)
            if not gone:
                leading = False
            elif not leading:
                edits.append((self._list[i - 1].value_end, self._list[i].value_end, b""))
            elif i < last:
                edits.append((self._list[i].key, self._list[i + 1].key, b""))
            else:
                edits.append((self._list[i].key, self._list[i].value_end, b""))
        return edits

    def addition(self, bytes added):
        """The edit that puts `added` (members without braces) behind the last member."""
        if not self._count:
            return self.start + 1, self.start + 1, added
        return self._list[self._count - 1].value_end, self._list[self._count - 1].value_end, b"," + added


cpdef bytes unescape(bytes quoted):
    """The UTF-8 text of a valid JSON string with its quotes."""
    if b"\\" not in quoted:
        return quoted[1:len(quoted) - 1]
    import json
    return json.loads(quoted).encode("utf-8")


cdef int _scan_members(Scan* s, Members found, int depth) noexcept nogil:
    """List the members of the object at `at`."""
    cdef Member one
    cdef int more
    found.start = s.at - s.text
    more = scan_open(s)
    while more > 0:
        one.key = s.at - s.text
        if scan_key(s) < 0:
            return -1
        one.escaped = s.escaped
        one.key_end = s.at - s.text
        if scan_colon(s) < 0:
            return -1
        one.value = s.at - s.text
        if scan_value(s, depth + 1) < 0:
            return -1
        one.value_end = s.at - s.text
        if found._add(&one) < 0:
            s.problem = "out of memory"
            return -1
        more = scan_next(s, 123)
    found.end = s.at - s.text
    return more


def members(bytes text):
    """Check `text` and list its top-level members; None when it is JSON but no object.

    Raises `JsonError`.
    """
    cdef Scan s
    cdef Members found = Members.__new__(Members)
    cdef int ended
    cdef bint is_object
    s.text = s.at = PyBytes_AS_STRING(text)
    s.end = s.text + len(text)
    found.text = text
    skip_blanks(&s)
    is_object = s.at < s.end and s.at[0] == 123
    if len(text) < _LARGE:
        ended = _scan_members(&s, found, 0) if is_object else scan_value(&s, 0)
    else:
        with nogil:
            ended = _scan_members(&s, found, 0) if is_object else scan_value(&s, 0)
    if ended < 0 or scan_end(&s) < 0:
        raise JsonError(s.problem.decode(), s.at - s.text)
    return found if is_object else None


def members_at(bytes text, Py_ssize_t start):
    """The members of the object that begins at `start` of a text that is known to be JSON."""
    cdef Scan s
    cdef Members found = Members.__new__(Members)
    cdef int ended
    s.text = PyBytes_AS_STRING(text)
    s.at = s.text + start
    s.end = s.text + len(text)
    found.text = text
    with nogil:
        ended = _scan_members(&s, found, 0)
    if ended < 0:
        raise JsonError(s.problem.decode(), s.at - s.text)
    return found


def elements(bytes text, Py_ssize_t start):
    """Give the spans of the elements of the array that begins at `start` of a text known to be JSON."""
    cdef Scan s
    cdef int more
    cdef Py_ssize_t begin
    s.text = PyBytes_AS_STRING(text)
    s.at = s.text + start
    s.end = s.text + len(text)
    more = scan_open(&s)
    while more > 0:
        begin = s.at - s.text
        with nogil:
            more = scan_value(&s, 1)
        if more == 0:
            yield begin, s.at - s.text
            more = scan_next(&s, 91)
    if more < 0:
        raise JsonError(s.problem.decode(), s.at - s.text)


cdef struct _Edit:
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t order
    const char* data
    Py_ssize_t size


cdef int _by_place(const void* left, const void* right) noexcept nogil:
    cdef const _Edit* a = <const _Edit*>left
    cdef const _Edit* b = <const _Edit*>right
    if a.start != b.start:
        return -1 if a.start < b.start else 1
    return -1 if a.order < b.order else 1


cdef Py_ssize_t _spliced_size(const _Edit* edits, Py_ssize_t count, Py_ssize_t length) noexcept nogil:
    """Length of the edited text, -1 when edits overlap or leave the text."""
    cdef Py_ssize_t i, at = 0, size = length
    for i in range(count):
        if edits[i].start < at or edits[i].end < edits[i].start or edits[i].end > length:
            return -1
        at = edits[i].end
        size += edits[i].size - (edits[i].end - edits[i].start)
    return size


cdef void _copy_spliced(const char* source, Py_ssize_t length, const _Edit* edits, Py_ssize_t count,
                        char* target) noexcept nogil:
    cdef Py_ssize_t i, at = 0
    for i in range(count):
        memcpy(target, source + at, edits[i].start - at)
        target += edits[i].start - at
        memcpy(target, edits[i].data, edits[i].size)
        target += edits[i].size
        at = edits[i].end
    memcpy(target, source + at, length - at)


def splice(bytes text, list edits):
    """`text` with the spans of `edits`, (start, end, bytes) in any order, replaced.

    Edits at the same place come in the order given. Raises ValueError when edits overlap.
    """
    cdef Py_ssize_t count = len(edits), length = len(text), size, i
    cdef bytes new, result
    cdef const char* source
    cdef char* target
    cdef _Edit* sorted_edits = <_Edit*>PyMem_RawMalloc((count + 1) * sizeof(_Edit))
    if sorted_edits == NULL:
        raise MemoryError
    try:
        for i in range(count):
            sorted_edits[i].start, sorted_edits[i].end, new = edits[i]
            sorted_edits[i].order = i
            sorted_edits[i].data = PyBytes_AS_STRING(new)
            sorted_edits[i].size = len(new)
            if i % _BREATH == _BREATH - 1:
                with nogil:
                    pass
        with nogil:
            qsort(sorted_edits, count, sizeof(_Edit), _by_place)
            size = _spliced_size(sorted_edits, count, length)
        if size < 0:
            raise ValueError("edits overlap or leave the text")
        result = PyBytes_FromStringAndSize(NULL, size)
        source, target = PyBytes_AS_STRING(text), PyBytes_AS_STRING(result)
        if size < _LARGE:
            _copy_spliced(source, length, sorted_edits, count, target)
        else:
            with nogil:
                _copy_spliced(source, length, sorted_edits, count, target)
        return result
    finally:
        PyMem_RawFree(sorted_edits)
