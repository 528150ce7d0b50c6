"""Guesses how many tokens a prompt has, and reads how many an answer says it cost, from its bytes in
whatever pieces they come.

All counts stand in members whose names end in `_tokens`, in `usage` or `meta_info`. Such a name followed
by a colon and digits cannot stand inside a JSON text, whose quotes are escaped, so the bytes are searched
for it instead of being parsed. Of a stream the last count of each kind is the one that holds.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcmp, memcpy

cdef extern from "<string.h>" nogil:
    void* memmem(const void* haystack, size_t size, const void* needle, size_t needle_size)

cdef enum:
    _NAME = 31               # the longest name is `cache_creation_input_tokens`; no other is looked at
    _DIGITS = 15
    _BYTES_PER_TOKEN = 4
    _LARGE = 65536           # a smaller text is not searched for images
    _DATA_RUN = 4096

cdef enum _Line:
    _AFTER_COLON = 5         # only blanks since `data:`
    _OTHER = 6               # the rest of the line says nothing


cdef const char* _DATA = b"data:"
cdef long long _MOST = 10**15          # as `_DIGITS` allows


cdef bint _is(const char* name, Py_ssize_t size, const char* wanted, Py_ssize_t wanted_size) noexcept:
    return size == wanted_size and memcmp(name, wanted, size) == 0


cdef bint _is_name(char one) noexcept:
    return 97 <= one <= 122 or one == 95


cdef bint _is_blank(char one) noexcept nogil:
    return one == 32 or one == 10 or one == 13 or one == 9


cdef Py_ssize_t _without_data(const char* text, Py_ssize_t size) noexcept nogil:
    """The size without images and sounds: base64 of a length that no word has."""
    cdef Py_ssize_t at, run = 0, data = 0
    for at in range(size):
        if 48 <= text[at] <= 57 or 65 <= text[at] <= 90 or 97 <= text[at] <= 122 or text[at] == 43 or text[at] == 47:
            run += 1
        else:
            if run >= _DATA_RUN:
                data += run
            run = 0
    return size - data - (run if run >= _DATA_RUN else 0)


cdef Py_ssize_t _guess(const char* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at, commas = 0
    if size and text[0] == 91:                                   # maybe the tokens themselves, in lists
        for at in range(size):
            if text[at] == 44:
                commas += 1
            elif not (48 <= text[at] <= 57 or text[at] == 91 or text[at] == 93 or _is_blank(text[at])):
                break
        else:
            return commas + 1
    if size > _LARGE:
        size = _without_data(text, size)
    return (size + _BYTES_PER_TOKEN - 1) // _BYTES_PER_TOKEN


cdef Py_ssize_t _guess_all(const char* text, const int64_t* spans, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, total = 0
    for i in range(count):
        total += _guess(text + spans[2 * i], spans[2 * i + 1] - spans[2 * i])
    return total


def guess_tokens(bytes body not None, bytes spans):
    """About how many tokens the parts of a body at `spans` (see `prompt_spans`) have; None: the whole."""
    cdef const char* text = PyBytes_AS_STRING(body)
    cdef int64_t whole[2]
    cdef const int64_t* pairs = whole
    cdef Py_ssize_t count = 1, total
    whole[0], whole[1] = 0, PyBytes_GET_SIZE(body)
    if spans is not None:
        pairs = <const int64_t*>PyBytes_AS_STRING(spans)
        count = PyBytes_GET_SIZE(spans) // <Py_ssize_t>(2 * sizeof(int64_t))
    if PyBytes_GET_SIZE(body) < _LARGE:
        return _guess_all(text, pairs, count)
    with nogil:
        total = _guess_all(text, pairs, count)
    return total


@cython.final
cdef class UsageMeter:
    """One answer's counts; `reset` before each attempt."""

    def __cinit__(self):
        self.reset()

    def feed(self, bytes data not None):
        """Take the next piece of the answer's payload."""
        self.take(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def clear(self):
        """Begin with another answer."""
        self.reset()

    @property
    def tokens(self):
        """Prompt and completion together, or -1 when the answer has said nothing."""
        if self.prompt < 0 and self.completion < 0:
            return self.total
        return max(self.prompt, 0) + max(self.cache_read, 0) + max(self.cache_written, 0) + max(self.completion, 0)

    cdef void reset(self) noexcept:
        self.prompt = self.completion = self.total = self.cache_read = self.cache_written = -1
        self.events = 0
        self._begun = False
        self._adds = False
        self._line = 0
        self._carried = 0

    cdef void take(self, const char* data, Py_ssize_t size) except *:
        cdef bytes joined
        cdef Py_ssize_t at, carried
        if size == 0:
            return
        self._count_events(data, size)
        if not self._begun:
            for at in range(size):
                if not _is_blank(data[at]):
                    self._begun = True
                    self._adds = data[at] == 91
                    break
        if self._carried:
            joined = PyBytes_FromStringAndSize(NULL, self._carried + size)
            memcpy(PyBytes_AS_STRING(joined), self._carry, self._carried)
            memcpy(PyBytes_AS_STRING(joined) + self._carried, data, size)
            data = PyBytes_AS_STRING(joined)
            size += self._carried
        carried = self._scan(data, size)
        if carried > CARRIED:
            carried = 0
        self._carried = carried
        memcpy(self._carry, data + size - carried, carried)

    cdef Py_ssize_t _scan(self, const char* data, Py_ssize_t size) noexcept:
        """Note every member that is complete; how many bytes at the end belong to one that is not."""
        cdef const char* end = data + size
        cdef const char* at = data
        cdef const char* name
        cdef const char* found
        cdef long long count
        cdef int digits
        while True:
            found = <const char*>memmem(at, end - at, b'_tokens"', 8)
            if found == NULL:
                break
            name = found
            while name > at and _is_name((name - 1)[0]) and found - name < _NAME:
                name -= 1
            found += 7
            if name == at or (name - 1)[0] != 34:
                at = found
                continue
            at = found + 1
            while at < end and _is_blank(at[0]):
                at += 1
            if at < end and at[0] != 58:
                continue
            if at < end:
                at += 1
            while at < end and _is_blank(at[0]):
                at += 1
            count = 0
            digits = 0
            while at < end and 48 <= at[0] <= 57:
                if digits < _DIGITS:
                    count = count * 10 + (at[0] - 48)
                    digits += 1
                at += 1
            if at == end:
                return end - name + 1
            if digits:
                self._note(name, found - name, count)
        # A name may go on in the next piece.
        name = end
        while name > at and _is_name((name - 1)[0]) and end - name < _NAME:
            name -= 1
        return end - name + 1 if name > at and (name - 1)[0] == 34 else 0

    cdef void _note(self, const char* name, Py_ssize_t size, long long count) noexcept:
        if _is(name, size, b"prompt_tokens", 13) or _is(name, size, b"input_tokens", 12):
            self.prompt = self._added(count, self.prompt)
        elif _is(name, size, b"completion_tokens", 17) or _is(name, size, b"output_tokens", 13):
            self.completion = self._added(count, self.completion)
        elif _is(name, size, b"total_tokens", 12):
            self.total = self._added(count, self.total)
        elif _is(name, size, b"cache_read_input_tokens", 23) or _is(name, size, b"cache_creation_input_tokens", 27):
            self._note_cached(size == 23, count)

    cdef long long _added(self, long long count, long long before) noexcept:
        """A count of one more result of a list, or one that takes the place of that before."""
        return min(count + before, _MOST) if self._adds and before > 0 else count

    cdef void _note_cached(self, bint read, long long count) noexcept:
        """Tokens that `prompt` leaves out."""
        if read:
            self.cache_read = count
        else:
            self.cache_written = count

    cdef void _count_events(self, const char* data, Py_ssize_t size) noexcept:
        cdef const char* end = data + size
        cdef const char* at = data
        while at < end:
            if self._line == _OTHER:
                at = <const char*>memchr(at, 10, end - at)
                if at == NULL:
                    return
                self._line = 0
            elif self._line < _AFTER_COLON:
                self._line = self._line + 1 if at[0] == _DATA[self._line] else (0 if at[0] == 10 else _OTHER)
            elif at[0] == 123:
                self.events += 1
                self._line = _OTHER
            elif at[0] != 32:
                self._line = 0 if at[0] == 10 else _OTHER
            at += 1
