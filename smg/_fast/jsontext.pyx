"""What JSON strings say, told from how they are written: a large one is never made into an object.

A span is that of a valid string with its quotes. Large ones are read without the interpreter.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.string cimport memchr

from smg._fast.jsonedit cimport LARGE
from smg._fast.jsonscan cimport plain_char


cdef extern from "Python.h" nogil:
    bint Py_UNICODE_ISSPACE(Py_UCS4 character)        # reads tables only


cdef const char* _opened(bytes text, Py_ssize_t start, Py_ssize_t end) except NULL:
    """Behind the opening quote."""
    if not 0 <= start <= end - 2 or end > PyBytes_GET_SIZE(text):
        raise ValueError("outside of the text")
    return PyBytes_AS_STRING(text) + start + 1


cdef Py_ssize_t _count(const char* at, const char* end) noexcept nogil:
    cdef Py_ssize_t count = 0
    cdef const char* escape
    cdef char resolved[4]
    while at < end:
        escape = <const char*>memchr(at, 92, end - at)
        if escape == NULL:
            escape = end
        while at < escape:
            count += (at[0] & 0xC0) != 0x80
            at += 1
        if at < end:
            plain_char(&at, resolved)
            count += 1
    return count


def characters(bytes text not None, Py_ssize_t start, Py_ssize_t end):
    """How many the string has."""
    cdef const char* at = _opened(text, start, end)
    cdef const char* close = at + (end - start - 2)
    cdef Py_ssize_t count
    if end - start < LARGE:
        return _count(at, close)
    with nogil:
        count = _count(at, close)
    return count


cdef uint32_t _next(const char** at) noexcept nogil:
    """Over one character."""
    cdef char told[4]
    cdef int width, i
    cdef uint32_t code
    cdef unsigned char first = <unsigned char>at[0][0]
    if first < 0xC0:
        width = plain_char(at, told)
        first = <unsigned char>told[0]
    else:
        width = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2
        for i in range(width):
            told[i] = at[0][i]
        at[0] += width
    if width == 1:
        return first
    code = first & (0xFF >> (width + 1))
    for i in range(1, width):
        code = code << 6 | (<unsigned char>told[i] & 0x3F)
    return code


cdef bint _is_blank(const char* at, const char* end) noexcept nogil:
    cdef uint32_t code
    while at < end:
        code = _next(&at)
        if not Py_UNICODE_ISSPACE(code):      # a macro that reads its argument twice
            return False
    return True


def is_blank(bytes text not None, Py_ssize_t start, Py_ssize_t end):
    """Has the string nothing but white space, or nothing?"""
    cdef const char* at = _opened(text, start, end)
    cdef const char* close = at + (end - start - 2)
    cdef bint blank
    if end - start < LARGE:
        return _is_blank(at, close)
    with nogil:
        blank = _is_blank(at, close)
    return blank


cdef enum:
    _LONGEST_EDGE = 16


cdef struct Edges:
    const char* first
    Py_ssize_t first_size
    const char* last
    Py_ssize_t last_size
    char stop


cdef bint _has_edges(const char* at, const char* end, const Edges* wanted) noexcept nogil:
    cdef char behind[_LONGEST_EDGE]     # the last bytes that were read, as a ring
    cdef char told[4]
    cdef Py_ssize_t size = 0, i
    cdef int width, j
    while at < end:
        width = plain_char(&at, told)
        if width == 1 and told[0] == wanted.stop:
            break
        for j in range(width):
            if size < wanted.first_size and told[j] != wanted.first[size]:
                return False
            behind[size % _LONGEST_EDGE] = told[j]
            size += 1
    else:
        return False
    if at >= end or size <= wanted.first_size + wanted.last_size:
        return False
    for i in range(wanted.last_size):
        if behind[(size - wanted.last_size + i) % _LONGEST_EDGE] != wanted.last[i]:
            return False
    return True


def has_edges(bytes text not None, Py_ssize_t start, Py_ssize_t end, bytes first not None, bytes last not None,
              char stop):
    """Has the string the byte `stop` with something behind it, and before the first one `first`, something
    else, and `last` (16 bytes at most)?"""
    cdef const char* at = _opened(text, start, end)
    cdef const char* close = at + (end - start - 2)
    cdef Edges wanted
    cdef bint has
    if PyBytes_GET_SIZE(last) > _LONGEST_EDGE:
        raise ValueError("too long")
    wanted.first, wanted.first_size = PyBytes_AS_STRING(first), PyBytes_GET_SIZE(first)
    wanted.last, wanted.last_size = PyBytes_AS_STRING(last), PyBytes_GET_SIZE(last)
    wanted.stop = stop
    with nogil:
        has = _has_edges(at, close, &wanted)
    return has
