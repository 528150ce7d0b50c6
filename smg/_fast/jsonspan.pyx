"""Strict JSON (RFC 8259) checked in one pass, and the spans of an object's top-level members.

A worker gets the client's own bytes; what has to change is cut out by span and replaced, so that
number spelling, key order, white space and unknown members stay as they were sent.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcmp


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif
    /* First byte in [p, end) that a string's fast path cannot take: a quote, a backslash, a control
       character or a byte of a multi-byte sequence. */
    static inline const char *smg_plain_run(const char *p, const char *end) {
    #ifdef __SSE2__
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\\\'), space = _mm_set1_epi8(0x20);
        while (end - p >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)p);
            /* signed comparison: bytes from 0x80 on are negative and so below the blank as well */
            __m128i odd = _mm_or_si128(_mm_cmplt_epi8(v, space),
                                       _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
            int mask = _mm_movemask_epi8(odd);
            if (mask) return p + __builtin_ctz((unsigned)mask);
            p += 16;
        }
    #else
        while (end - p >= 8) {
            uint64_t v, ones = 0x0101010101010101ULL, high = 0x8080808080808080ULL, q, s, c;
            memcpy(&v, p, 8);
            q = v ^ (ones * '"');
            s = v ^ (ones * '\\\\');
            c = (v - ones * 0x20) & ~v;
            if (((c | v | ((q - ones) & ~q) | ((s - ones) & ~s)) & high) != 0) break;
            p += 8;
        }
    #endif
        while (p < end && (signed char)*p >= 0x20 && *p != '"' && *p != '\\\\') p++;
        return p;
    }
    static inline int smg_hex4(const char *p) {
        int i, value = 0;
        for (i = 0; i < 4; i++) {
            unsigned char c = (unsigned char)p[i];
            if (c >= '0' && c <= '9') value = value * 16 + (c - '0');
            else if (c >= 'a' && c <= 'f') value = value * 16 + (c - 'a' + 10);
            else if (c >= 'A' && c <= 'F') value = value * 16 + (c - 'A' + 10);
            else return -1;
        }
        return value;
    }
    /* Length of the well-formed UTF-8 sequence at p (2-4), 0 when it is none. */
    static inline int smg_utf8(const unsigned char *p, const unsigned char *end) {
        unsigned char a = p[0];
        long left = end - p;
        if (a >= 0xc2 && a <= 0xdf) return left >= 2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
        if (a >= 0xe0 && a <= 0xef) {
            if (left < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80) return 0;
            if (a == 0xe0 && p[1] < 0xa0) return 0;
            if (a == 0xed && p[1] > 0x9f) return 0;
            return 3;
        }
        if (a >= 0xf0 && a <= 0xf4) {
            if (left < 4 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80 || (p[3] & 0xc0) != 0x80) return 0;
            if (a == 0xf0 && p[1] < 0x90) return 0;
            if (a == 0xf4 && p[1] > 0x8f) return 0;
            return 4;
        }
        return 0;
    }
    """
    const char* smg_plain_run(const char* p, const char* end) noexcept
    int smg_hex4(const char* p) noexcept
    int smg_utf8(const unsigned char* p, const unsigned char* end) noexcept

MAX_DEPTH = 128

cdef enum:
    _MAX_DEPTH = 128


class JsonError(ValueError):
    """Not JSON; `position` is the offset in bytes where it stopped to be."""

    def __init__(self, str message, Py_ssize_t position):
        super().__init__(message)
        self.position = position


cdef class _Scanner:
    """One pass over one text; `at` is where it stands."""
    cdef const char* text
    cdef const char* end
    cdef const char* at
    cdef bint escaped

    cdef int fail(self, str message) except -1:
        raise JsonError(message, self.at - self.text)

    cdef inline int blanks(self) except -1:
        while self.at < self.end and (self.at[0] == 32 or self.at[0] == 10 or self.at[0] == 13 or self.at[0] == 9):
            self.at += 1
        return 0

    cdef int string(self) except -1:
        """Over a string, from its opening quote; `escaped` tells whether it has escapes."""
        cdef unsigned char c
        cdef int width
        self.at += 1
        self.escaped = False
        while True:
            self.at = smg_plain_run(self.at, self.end)
            if self.at >= self.end:
                self.fail("EOF while parsing a string")
            c = self.at[0]
            if c == 34:
                self.at += 1
                return 0
            if c == 92:
                self.escaped = True
                self.escape()
            elif c < 32:
                self.fail("control character found while parsing a string")
            else:
                width = smg_utf8(<const unsigned char*>self.at, <const unsigned char*>self.end)
                if not width:
                    self.fail("invalid unicode code point")
                self.at += width

    cdef int escape(self) except -1:
        cdef int code
        if self.end - self.at < 2:
            self.fail("EOF while parsing a string")
        if self.at[1] != 117:
            if self.at[1] not in b'"\\/bfnrt':
                self.fail("invalid escape")
            self.at += 2
            return 0
        code = smg_hex4(self.at + 2) if self.end - self.at >= 6 else -1
        if code < 0:
            self.fail("invalid escape")
        self.at += 6
        if 0xDC00 <= code <= 0xDFFF:
            self.fail("lone surrogate in hex escape")
        if 0xD800 <= code <= 0xDBFF:
            if self.end - self.at < 6 or self.at[0] != 92 or self.at[1] != 117:
                self.fail("lone leading surrogate in hex escape")
            code = smg_hex4(self.at + 2)
            if not 0xDC00 <= code <= 0xDFFF:
                self.fail("lone leading surrogate in hex escape")
            self.at += 6
        return 0

    cdef inline bint digits(self) noexcept:
        cdef const char* begin = self.at
        while self.at < self.end and 48 <= self.at[0] <= 57:
            self.at += 1
        return self.at > begin

    cdef int number(self) except -1:
        cdef const char* begin = self.at
        cdef bint real = False
        if self.at[0] == 45:
            self.at += 1
        if self.at < self.end and self.at[0] == 48:
            self.at += 1
        elif not self.digits():
            self.fail("invalid number")
        if self.at < self.end and self.at[0] == 46:
            self.at += 1
            real = True
            if not self.digits():
                self.fail("invalid number")
        if self.at < self.end and (self.at[0] == 101 or self.at[0] == 69):
            self.at += 1
            real = True
            if self.at < self.end and (self.at[0] == 43 or self.at[0] == 45):
                self.at += 1
            if not self.digits():
                self.fail("invalid number")
        if self.at - begin > 300 or (real and self.at - begin > 4):
            self.finite(begin)
        return 0

    cdef int finite(self, const char* begin) except -1:
        cdef double value = float(begin[:self.at - begin])
        if value - value != 0:
            self.fail("number out of range")
        return 0

    cdef int literal(self) except -1:
        cdef Py_ssize_t left = self.end - self.at
        if left >= 4 and (memcmp(self.at, b"true", 4) == 0 or memcmp(self.at, b"null", 4) == 0):
            self.at += 4
        elif left >= 5 and memcmp(self.at, b"false", 5) == 0:
            self.at += 5
        else:
            self.fail("expected value")
        return 0

    cdef int scalar(self) except -1:
        if self.at >= self.end:
            self.fail("EOF while parsing a value")
        if self.at[0] == 34:
            return self.string()
        if self.at[0] == 45 or 48 <= self.at[0] <= 57:
            return self.number()
        return self.literal()

    cdef int key(self) except -1:
        """Over a member's name and its colon, up to the value."""
        if self.at >= self.end:
            self.fail("EOF while parsing an object")
        if self.at[0] != 34:
            self.fail("key must be a string")
        self.string()
        return 0

    cdef int colon(self) except -1:
        self.blanks()
        if self.at >= self.end or self.at[0] != 58:
            self.fail("expected `:`")
        self.at += 1
        return self.blanks()

    cdef int value(self, int depth) except -1:
        """Over any value; containers by a stack of one bit a level instead of recursion."""
        cdef char kinds[_MAX_DEPTH + 1]
        cdef int base = depth
        while True:
            # a value begins here
            if self.at < self.end and (self.at[0] == 123 or self.at[0] == 91):
                if depth >= _MAX_DEPTH:
                    self.fail("recursion limit exceeded")
                kinds[depth] = self.at[0]
                depth += 1
                self.at += 1
                self.blanks()
                if self.at < self.end and self.at[0] == kinds[depth - 1] + 2:    # ] and } stand 2 behind [ and {
                    self.at += 1
                    depth -= 1
                else:
                    if kinds[depth - 1] == 123:
                        self.key()
                        self.colon()
                    continue
            else:
                self.scalar()
            # a value has ended: go up and on
            while True:
                if depth == base:
                    return 0
                self.blanks()
                if self.at >= self.end:
                    self.fail("EOF while parsing an object" if kinds[depth - 1] == 123 else "EOF while parsing a list")
                if self.at[0] == kinds[depth - 1] + 2:
                    self.at += 1
                    depth -= 1
                    continue
                if self.at[0] != 44:
                    self.fail("expected `,` or `}`" if kinds[depth - 1] == 123 else "expected `,` or `]`")
                self.at += 1
                self.blanks()
                if kinds[depth - 1] == 123:
                    self.key()
                    self.colon()
                break


@cython.final
@cython.freelist(16)
cdef class Members:
    """The top-level members of a JSON object, in order, by their spans in `text`."""

    def __dealloc__(self):
        PyMem_Free(self._list)

    cdef int _add(self, Member* member) except -1:
        cdef Member* grown
        if self._count == self._room:
            self._room = self._room * 2 if self._room else 16
            grown = <Member*>PyMem_Realloc(self._list, self._room * sizeof(Member))
            if grown == NULL:
                raise MemoryError
            self._list = grown
        self._list[self._count] = member[0]
        self._count += 1
        return 0

    cdef Py_ssize_t _find(self, bytes name) except -2:
        """Index of the last member of that name (a repeated key keeps its last value), or -1."""
        cdef Py_ssize_t i = self._count, size = len(name)
        cdef const char* data = PyBytes_AS_STRING(self.text)
        cdef Member* one
        while i > 0:
            i -= 1
            one = &self._list[i]
            if one.escaped:
                if _unescaped(self.text[one.key:one.key_end]) == name:
                    return i
            elif one.key_end - one.key - 2 == size and memcmp(data + one.key + 1, PyBytes_AS_STRING(name), size) == 0:
                return i
        return -1

    def __len__(self):
        return self._count

    def __contains__(self, bytes name):
        return self._find(name) >= 0

    def names(self):
        """The names in order, escapes resolved."""
        cdef Py_ssize_t i
        return [_unescaped(self.text[self._list[i].key:self._list[i].key_end]) for i in range(self._count)]

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
        cdef Py_ssize_t i, at = 0
        cdef list pieces = []
        for i in range(self._count):
            if _unescaped(self.text[self._list[i].key:self._list[i].key_end]) == name:
                pieces.append(self.text[at:self._list[i].value])
                pieces.append(value)
                at = self._list[i].value_end
        if not pieces:
            raise KeyError(name)
        pieces.append(self.text[at:])
        return b"".join(pieces)


cdef bytes _unescaped(bytes quoted):
    if b"\\" not in quoted:
        return quoted[1:len(quoted) - 1]
    import json
    return json.loads(quoted).encode("utf-8")


def members(bytes text):
    """Check `text` and list its top-level members; None when it is JSON but no object.

    Raises `JsonError`.
    """
    cdef _Scanner scan = _Scanner.__new__(_Scanner)
    cdef Members found = Members.__new__(Members)
    cdef Member one
    scan.text = scan.at = PyBytes_AS_STRING(text)
    scan.end = scan.text + len(text)
    found.text = text
    scan.blanks()
    if scan.at >= scan.end or scan.at[0] != 123:
        scan.value(0)
        _ended(scan)
        return None
    scan.at += 1
    scan.blanks()
    if scan.at < scan.end and scan.at[0] == 125:
        scan.at += 1
        _ended(scan)
        return found
    while True:
        one.key = scan.at - scan.text
        scan.key()
        one.escaped = scan.escaped
        one.key_end = scan.at - scan.text
        scan.colon()
        one.value = scan.at - scan.text
        scan.value(1)
        one.value_end = scan.at - scan.text
        found._add(&one)
        scan.blanks()
        if scan.at >= scan.end:
            scan.fail("EOF while parsing an object")
        if scan.at[0] == 125:
            scan.at += 1
            _ended(scan)
            return found
        if scan.at[0] != 44:
            scan.fail("expected `,` or `}`")
        scan.at += 1
        scan.blanks()


cdef int _ended(_Scanner scan) except -1:
    scan.blanks()
    if scan.at < scan.end:
        scan.fail("trailing characters")
    return 0
