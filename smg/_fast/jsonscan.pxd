"""Strict JSON (RFC 8259) over raw bytes: the scanner that `jsonspan` and `jsoncheck` share.

Everything here runs without the interpreter: large bodies are read in a thread while the loop goes on.
A function returns 0, or -1 with `problem` set and `at` where the text stopped to be JSON. The text must be
followed by a NUL byte, as the contents of `bytes` are.
"""
from libc.stdlib cimport strtod
from libc.string cimport memcmp, strlen


cdef extern from *:
    """
    #ifndef SMG_JSONSCAN
    #define SMG_JSONSCAN
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
    /* First byte in [p, end) that is no plain character of a string: a quote, a backslash, a control
       character or a byte that is not UTF-8. */
    static inline const char *smg_text_run(const char *p, const char *end) {
        for (;;) {
            p = smg_plain_run(p, end);
            if (p >= end || (signed char)*p >= 0) return p;
            do {
                int width = smg_utf8((const unsigned char *)p, (const unsigned char *)end);
                if (!width) return p;
                p += width;
            } while (p < end && (signed char)*p < 0);
        }
    }
    #endif
    """
    const char* smg_text_run(const char* p, const char* end) noexcept nogil
    int smg_hex4(const char* p) noexcept nogil


cdef enum:
    DEEPEST = 128     # containers inside one another


cdef struct Scan:
    const char* text
    const char* end
    const char* at
    const char* problem
    bint escaped      # the last string has escapes
    bint real         # the last number has a fraction or an exponent


cdef inline int failed(Scan* s, const char* problem) noexcept nogil:
    s.problem = problem
    return -1


cdef inline void skip_blanks(Scan* s) noexcept nogil:
    while s.at < s.end and (s.at[0] == 32 or s.at[0] == 10 or s.at[0] == 13 or s.at[0] == 9):
        s.at += 1


cdef inline int scan_escape(Scan* s) noexcept nogil:
    cdef int code
    cdef char c
    if s.end - s.at < 2:
        return failed(s, "EOF while parsing a string")
    c = s.at[1]
    if c != 117:
        if c != 34 and c != 92 and c != 47 and c != 98 and c != 102 and c != 110 and c != 114 and c != 116:
            return failed(s, "invalid escape")
        s.at += 2
        return 0
    code = smg_hex4(s.at + 2) if s.end - s.at >= 6 else -1
    if code < 0:
        return failed(s, "invalid escape")
    s.at += 6
    if 0xDC00 <= code <= 0xDFFF:
        return failed(s, "lone surrogate in hex escape")
    if 0xD800 <= code <= 0xDBFF:
        if s.end - s.at < 6 or s.at[0] != 92 or s.at[1] != 117:
            return failed(s, "lone leading surrogate in hex escape")
        code = smg_hex4(s.at + 2)
        if not 0xDC00 <= code <= 0xDFFF:
            return failed(s, "lone leading surrogate in hex escape")
        s.at += 6
    return 0


cdef inline int scan_string(Scan* s) noexcept nogil:
    """Over a string, from its opening quote; `escaped` tells whether it has escapes."""
    s.at += 1
    s.escaped = False
    while True:
        s.at = smg_text_run(s.at, s.end)
        if s.at >= s.end:
            return failed(s, "EOF while parsing a string")
        if s.at[0] == 34:
            s.at += 1
            return 0
        if s.at[0] != 92:
            if 0 <= s.at[0] < 32:
                return failed(s, "control character found while parsing a string")
            return failed(s, "invalid unicode code point")
        s.escaped = True
        if scan_escape(s) < 0:
            return -1


cdef inline bint scan_digits(Scan* s) noexcept nogil:
    cdef const char* begin = s.at
    while s.at < s.end and 48 <= s.at[0] <= 57:
        s.at += 1
    return s.at > begin


cdef inline int scan_number(Scan* s) noexcept nogil:
    """Over a number that a double can hold; `real` tells whether it is written as an integer."""
    cdef const char* begin = s.at
    cdef const char* exponent = NULL
    cdef double value
    s.real = False
    if s.at[0] == 45:
        s.at += 1
    if s.at < s.end and s.at[0] == 48:
        s.at += 1
    elif not scan_digits(s):
        return failed(s, "invalid number")
    if s.at < s.end and s.at[0] == 46:
        s.at += 1
        s.real = True
        if not scan_digits(s):
            return failed(s, "invalid number")
    if s.at < s.end and (s.at[0] == 101 or s.at[0] == 69):
        s.at += 1
        s.real = True
        exponent = s.at
        if s.at < s.end and (s.at[0] == 43 or s.at[0] == 45):
            s.at += 1
        if not scan_digits(s):
            return failed(s, "invalid number")
    if s.at - begin > 200 or (exponent != NULL and s.at - exponent > 2):
        value = strtod(begin, NULL)
        if value - value != 0:
            return failed(s, "number out of range")
    return 0


cdef inline bint fits_64_bits(const char* written, Py_ssize_t size, int width) noexcept nogil:
    """Does a scanned integer fit in 64 bits, signed (width 1) or unsigned (2)?"""
    cdef const char* highest = "9223372036854775807"
    if width == 2:
        if written[0] == 45:
            return False
        highest = "18446744073709551615"
    elif written[0] == 45:
        highest = "9223372036854775808"
        written += 1
        size -= 1
    return size < <Py_ssize_t>strlen(highest) or (
        size == <Py_ssize_t>strlen(highest) and memcmp(written, highest, size) <= 0
    )


cdef inline int scan_literal(Scan* s) noexcept nogil:
    cdef Py_ssize_t left = s.end - s.at
    if left >= 4 and (memcmp(s.at, "true", 4) == 0 or memcmp(s.at, "null", 4) == 0):
        s.at += 4
        return 0
    if left >= 5 and memcmp(s.at, "false", 5) == 0:
        s.at += 5
        return 0
    return failed(s, "expected value")


cdef inline int scan_scalar(Scan* s) noexcept nogil:
    if s.at >= s.end:
        return failed(s, "EOF while parsing a value")
    if s.at[0] == 34:
        return scan_string(s)
    if s.at[0] == 45 or 48 <= s.at[0] <= 57:
        return scan_number(s)
    return scan_literal(s)


cdef inline int scan_key(Scan* s) noexcept nogil:
    """Over a member's name."""
    if s.at >= s.end:
        return failed(s, "EOF while parsing an object")
    if s.at[0] != 34:
        return failed(s, "key must be a string")
    return scan_string(s)


cdef inline int scan_colon(Scan* s) noexcept nogil:
    """Over the colon behind a name, up to the value."""
    skip_blanks(s)
    if s.at >= s.end or s.at[0] != 58:
        return failed(s, "expected `:`")
    s.at += 1
    skip_blanks(s)
    return 0


cdef inline int scan_next(Scan* s, char opener) noexcept nogil:
    """Behind an element of a container: 1 when another one follows (`at` is there), 0 when it has ended."""
    skip_blanks(s)
    if s.at >= s.end:
        return failed(s, "EOF while parsing an object" if opener == 123 else "EOF while parsing a list")
    if s.at[0] == opener + 2:      # ] and } stand 2 behind [ and {
        s.at += 1
        return 0
    if s.at[0] != 44:
        return failed(s, "expected `,` or `}`" if opener == 123 else "expected `,` or `]`")
    s.at += 1
    skip_blanks(s)
    return 1


cdef inline int scan_open(Scan* s) noexcept nogil:
    """Into the container at `at`: 1 when it has elements (`at` is at the first), 0 when it was empty."""
    cdef char opener = s.at[0]
    s.at += 1
    skip_blanks(s)
    if s.at < s.end and s.at[0] == opener + 2:
        s.at += 1
        return 0
    return 1


cdef inline int scan_value(Scan* s, int depth) noexcept nogil:
    """Over any value; containers by a stack of one byte a level instead of recursion."""
    cdef char openers[DEEPEST + 1]
    cdef int base = depth
    cdef int more
    while True:
        # a value begins here
        if s.at < s.end and (s.at[0] == 123 or s.at[0] == 91):
            if depth >= DEEPEST:
                return failed(s, "recursion limit exceeded")
            openers[depth] = s.at[0]
            more = scan_open(s)
            if more:
                depth += 1
                if openers[depth - 1] == 123 and (scan_key(s) < 0 or scan_colon(s) < 0):
                    return -1
                continue
        elif scan_scalar(s) < 0:
            return -1
        # a value has ended: go up and on
        while True:
            if depth == base:
                return 0
            more = scan_next(s, openers[depth - 1])
            if more < 0:
                return -1
            if more:
                if openers[depth - 1] == 123 and (scan_key(s) < 0 or scan_colon(s) < 0):
                    return -1
                break
            depth -= 1


cdef inline int scan_end(Scan* s) noexcept nogil:
    """Only blanks may follow."""
    skip_blanks(s)
    if s.at < s.end:
        return failed(s, "trailing characters")
    return 0


cdef inline int plain_char(const char** at, char* out) noexcept nogil:
    """Over one byte or escape of a string that has been scanned; how many bytes of UTF-8 it stands for."""
    cdef int code
    cdef char c = at[0][0]
    if c != 92:
        out[0] = c
        at[0] += 1
        return 1
    c = at[0][1]
    if c != 117:
        out[0] = 8 if c == 98 else 12 if c == 102 else 10 if c == 110 else 13 if c == 114 else 9 if c == 116 else c
        at[0] += 2
        return 1
    code = smg_hex4(at[0] + 2)
    at[0] += 6
    if code < 0x80:
        out[0] = <char>code
        return 1
    if code < 0x800:
        out[0] = <char>(0xC0 | code >> 6)
        out[1] = <char>(0x80 | (code & 0x3F))
        return 2
    if not 0xD800 <= code <= 0xDBFF:
        out[0] = <char>(0xE0 | code >> 12)
        out[1] = <char>(0x80 | (code >> 6 & 0x3F))
        out[2] = <char>(0x80 | (code & 0x3F))
        return 3
    code = 0x10000 + ((code - 0xD800) << 10) + smg_hex4(at[0] + 2) - 0xDC00
    at[0] += 6
    out[0] = <char>(0xF0 | code >> 18)
    out[1] = <char>(0x80 | (code >> 12 & 0x3F))
    out[2] = <char>(0x80 | (code >> 6 & 0x3F))
    out[3] = <char>(0x80 | (code & 0x3F))
    return 4
