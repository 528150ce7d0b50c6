"""The spans of an object's members and of an array's elements; jsonedit.pyx makes edits of them."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.string cimport memchr, memcmp, memcpy

from smg._fast.jsonedit cimport LARGE, Edits, free_memory
from smg._fast.jsonscan cimport (
    DEEPEST,
    Scan,
    plain_char,
    scan_colon,
    scan_end,
    scan_key,
    scan_next,
    scan_open,
    scan_value,
    skip_blanks,
)

MAX_DEPTH = DEEPEST

cdef enum:
    _MOST_NAMES = 8        # that one call takes out
    # What is shorter is read without letting the interpreter go. Who lets it go again and again and takes it back
    # at once keeps it: the others are woken each time, too late, and do not get to the point of insisting on it.
    _SHORT = 1 << 14
    _MANY = 1000           # members from which the interpreter is let go while they are searched


class JsonError(ValueError):
    """Not JSON; `position` is the offset in bytes where it stopped to be."""

    def __init__(self, str message, Py_ssize_t position):
        super().__init__(message)
        self.position = position


cdef class Members:
    """The members of a JSON object, in order, by their spans in `text`."""

    def __dealloc__(self):
        free_memory(self._list, self._room * <Py_ssize_t>sizeof(Member))

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

    cdef bint _is_named(self, const char* text, Py_ssize_t index, const Text* name) noexcept nogil:
        cdef const Member* one = &self._list[index]
        cdef const char* written = text + one.key + 1
        cdef Py_ssize_t size = one.key_end - one.key - 2
        if one.escaped:
            return _reads_as(written, size, name)
        return size == name.size and memcmp(written, name.at, size) == 0

    cdef Py_ssize_t _find(self, bytes name) except -2:
        """Index of the last member of that name (a repeated key keeps its last value), or -1."""
        cdef const char* text = PyBytes_AS_STRING(self.text)
        cdef Text wanted
        cdef Py_ssize_t found
        wanted.at, wanted.size = PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
        if self._count < _MANY:
            return self._last(text, &wanted)
        with nogil:
            found = self._last(text, &wanted)
        return found

    cdef Py_ssize_t _last(self, const char* text, const Text* name) noexcept nogil:
        cdef Py_ssize_t i = self._count - 1
        while i >= 0 and not self._is_named(text, i, name):
            i -= 1
        return i

    def __len__(self):
        return self._count

    def __contains__(self, bytes name):
        return self._find(name) >= 0

    def names(self):
        """Give the names in order, escapes resolved."""
        cdef Py_ssize_t i
        for i in range(self._count):
            yield text_of(self.text, self._list[i].key, self._list[i].key_end)

    def values(self):
        """Give the spans of the values in order."""
        cdef Py_ssize_t i
        for i in range(self._count):
            yield self._list[i].value, self._list[i].value_end

    def known(self, tuple names not None):
        """Give (number of its name, start of the value, its end) of each member of those names, eight at most, in
        order, and of the first of all others (-1, start of the name, its end)."""
        cdef Py_ssize_t i = -1
        cdef int number
        cdef bint others = False
        while True:
            i = self._next(i + 1, names, others)
            if i == self._count:
                return
            number = self._number(i, names)
            if number >= 0:
                yield number, self._list[i].value, self._list[i].value_end
            else:
                others = True
                yield number, self._list[i].key, self._list[i].key_end

    cdef int _number(self, Py_ssize_t i, tuple names) except -2:
        """Which of the names a member has, or -1."""
        cdef Text name
        cdef int number = 0
        for one in names:
            name.at, name.size = PyBytes_AS_STRING(one), PyBytes_GET_SIZE(one)
            if self._is_named(PyBytes_AS_STRING(self.text), i, &name):
                return number
            number += 1
        return -1

    cdef Py_ssize_t _next(self, Py_ssize_t i, tuple names, bint others) except -1:
        """Index of the next member of one of the names, from `i` on; only until `others` of any name."""
        cdef const char* text = PyBytes_AS_STRING(self.text)
        cdef Text wanted[_MOST_NAMES]
        cdef int count = 0
        if not others:
            return i
        for name in names:
            if count == _MOST_NAMES:
                raise ValueError("too many names")
            wanted[count].at, wanted[count].size = PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
            count += 1
        if self._count - i < _MANY:
            return self._next_of(i, text, wanted, count)
        with nogil:
            i = self._next_of(i, text, wanted, count)
        return i

    cdef Py_ssize_t _next_of(self, Py_ssize_t i, const char* text, const Text* names, int count) noexcept nogil:
        cdef int j
        while i < self._count:
            for j in range(count):
                if self._is_named(text, i, &names[j]):
                    return i
            i += 1
        return i

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
        cdef Edits edits = Edits(self.text)
        cdef Text wanted
        cdef Py_ssize_t i
        wanted.at, wanted.size = PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
        for i in range(self._count):
            if self._is_named(PyBytes_AS_STRING(self.text), i, &wanted):
                edits.put(self._list[i].value, self._list[i].value_end, value)
        if not len(edits):
            raise KeyError(name)
        return edits.apply()

    def removal(self, bytes name):
        """The span to take out for the last member of that name, its comma included; None when there is none."""
        cdef Py_ssize_t i = self._find(name)
        if i < 0:
            return None
        if i > 0:
            return self._list[i - 1].value_end, self._list[i].value_end
        return self._list[i].key, self._list[i + 1].key if self._count > 1 else self._list[i].value_end

    def remove(self, Edits edits not None, *names):
        """Plan to take every member of those names out, with the commas that go with them; eight names at most."""
        cdef const char* text = PyBytes_AS_STRING(self.text)
        cdef Text gone[_MOST_NAMES]
        cdef int count = 0, ended
        for name in names:
            if count == _MOST_NAMES:
                raise ValueError("too many names")
            gone[count].at, gone[count].size = PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
            count += 1
        with nogil:
            ended = self._remove(text, edits, gone, count)
        if ended < 0:
            raise MemoryError

    cdef int _remove(self, const char* text, Edits edits, const Text* names, int count) noexcept nogil:
        cdef Py_ssize_t i, start, end, last = self._count - 1
        cdef bint leading = True, gone
        cdef int j
        for i in range(self._count):
            gone = False
            for j in range(count):
                gone = gone or self._is_named(text, i, &names[j])
            if not gone:
                leading = False
                continue
            start, end = self._list[i].key, self._list[i].value_end
            if not leading:
                start = self._list[i - 1].value_end
            elif i < last:
                end = self._list[i + 1].key
            if edits.add(start, end, "", 0) < 0:
                return -1
        return 0

    def addition(self, bytes added):
        """The edit that puts `added` (members without braces) behind the last member."""
        if not self._count:
            return self.start + 1, self.start + 1, added
        return self._list[self._count - 1].value_end, self._list[self._count - 1].value_end, b"," + added


cdef bint _reads_as(const char* at, Py_ssize_t size, const Text* name) noexcept nogil:
    """Is a name that is written with escapes that one?"""
    cdef const char* end = at + size
    cdef char resolved[4]
    cdef Py_ssize_t done = 0
    cdef int width
    while at < end:
        width = plain_char(&at, resolved)
        if done + width > name.size or memcmp(name.at + done, resolved, width) != 0:
            return False
        done += width
    return done == name.size


cdef Py_ssize_t _resolve(const char* at, Py_ssize_t size, char* target) noexcept nogil:
    """Write what a string says, which is never longer than it is written; how long it is."""
    cdef const char* end = at + size
    cdef const char* escape
    cdef char* begin = target
    while at < end:
        escape = <const char*>memchr(at, 92, end - at)
        if escape == NULL:
            escape = end
        memcpy(target, at, escape - at)
        target += escape - at
        at = escape
        if at < end:
            target += plain_char(&at, target)
    return target - begin


cpdef bytes text_of(bytes text, Py_ssize_t start, Py_ssize_t end):
    """The UTF-8 text of the JSON string at a span that has its quotes."""
    cdef Py_ssize_t size = end - start - 2
    cdef const char* at
    cdef char* room
    if not 0 <= start <= end - 2 or end > PyBytes_GET_SIZE(text):
        raise ValueError("outside of the text")
    at = PyBytes_AS_STRING(text) + start + 1
    if size < LARGE:
        if memchr(at, 92, size) == NULL:
            return at[:size]
        room = <char*>PyMem_RawMalloc(size)
        try:
            return room[:_resolve(at, size, room)]
        finally:
            PyMem_RawFree(room)
    return _large_text(at, size)


cdef bytes _large_text(const char* at, Py_ssize_t size):
    cdef Py_ssize_t length
    cdef char* room
    cdef char* target
    cdef bytes result
    with nogil:
        room = <char*>PyMem_RawMalloc(size)
        length = _resolve(at, size, room) if room != NULL else 0
    if room == NULL:
        raise MemoryError
    result = PyBytes_FromStringAndSize(NULL, length)
    target = PyBytes_AS_STRING(result)
    with nogil:
        memcpy(target, room, length)
        PyMem_RawFree(room)
    return result


cdef int _scan_object(Scan* s) noexcept nogil:
    skip_blanks(s)
    if s.at >= s.end or s.at[0] != 123 or scan_value(s, 0) < 0:
        return -1
    return scan_end(s)


cdef int _says_object(const char* at, Py_ssize_t size) noexcept nogil:
    """1 or 0; -1: out of memory."""
    cdef Scan s
    cdef int ended
    cdef char* room = <char*>PyMem_RawMalloc(size + 1)
    if room == NULL:
        return -1
    size = _resolve(at, size, room)
    room[size] = 0
    s.text = s.at = room
    s.end = room + size
    ended = _scan_object(&s)
    PyMem_RawFree(room)
    return ended == 0


def says_object(bytes text not None, Py_ssize_t start, Py_ssize_t end):
    """Is what the JSON string at a span says a JSON object itself?"""
    cdef const char* at
    cdef int said
    if not 0 <= start <= end - 2 or end > PyBytes_GET_SIZE(text):
        raise ValueError("outside of the text")
    at = PyBytes_AS_STRING(text) + start + 1
    if end - start <= _SHORT:
        said = _says_object(at, end - start - 2)
    else:
        with nogil:
            said = _says_object(at, end - start - 2)
    if said < 0:
        raise MemoryError
    return said == 1


def unescape(bytes quoted not None):
    """The UTF-8 text of a valid JSON string with its quotes."""
    return text_of(quoted, 0, PyBytes_GET_SIZE(quoted))


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
    if len(text) < LARGE:
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
    if len(text) - start > _SHORT:
        s.end = s.at + _SHORT
    ended = _scan_members(&s, found, 0)
    if ended < 0 and len(text) - start > _SHORT:
        s.at, s.end = s.text + start, s.text + len(text)
        found._count = 0
        with nogil:
            ended = _scan_members(&s, found, 0)
    if ended < 0:
        raise JsonError(s.problem.decode(), s.at - s.text)
    return found


cdef int _scan_element(Scan* s) noexcept:
    """Over an element of an array."""
    cdef const char* begin = s.at
    cdef const char* end = s.end
    cdef int ended
    if end - begin > _SHORT:
        s.end = begin + _SHORT
        ended = scan_value(s, 1)
        if ended == 0 and s.at < s.end:                         # a number may seem to end there
            s.end = end
            return 0
        s.at, s.end = begin, end
    with nogil:
        ended = scan_value(s, 1)
    return ended


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
        more = _scan_element(&s)
        if more == 0:
            yield begin, s.at - s.text
            more = scan_next(&s, 91)
    if more < 0:
        raise JsonError(s.problem.decode(), s.at - s.text)
