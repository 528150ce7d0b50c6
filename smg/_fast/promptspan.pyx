"""Where the prompt's text stands in a request's body: spans of bytes for the text index, nothing copied.

Reads JSON that has been checked already; on anything else it finds fewer spans, never a wrong place.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcmp

cdef enum:
    _MAX_SPANS = 4096
    _LARGE = 1 << 16       # bytes from which the interpreter is let go while they are read


cdef const char* _string_end(const char* at, const char* end) noexcept nogil:
    """Behind the closing quote of the string whose opening quote is at `at`."""
    cdef const char* quote
    cdef const char* back
    at += 1
    while at < end:
        quote = <const char*>memchr(at, 34, end - at)
        if quote == NULL:
            return end
        back = quote
        while back > at and (back - 1)[0] == 92:
            back -= 1
        if not (quote - back) & 1:
            return quote + 1
        at = quote + 1
    return end


cdef const char* _blanks(const char* at, const char* end) noexcept nogil:
    while at < end and (at[0] == 32 or at[0] == 10 or at[0] == 13 or at[0] == 9):
        at += 1
    return at


cdef const char* _value_end(const char* at, const char* end) noexcept nogil:
    """Behind the value that begins at `at`."""
    cdef int depth = 0
    while at < end:
        if at[0] == 34:
            at = _string_end(at, end)
            if depth == 0:
                return at
            continue
        if at[0] == 123 or at[0] == 91:
            depth += 1
        elif at[0] == 125 or at[0] == 93:
            if depth == 0:
                return at
            depth -= 1
            if depth == 0:
                return at + 1
        elif depth == 0 and (at[0] == 44 or at[0] == 32 or at[0] == 10 or at[0] == 13 or at[0] == 9):
            return at
        at += 1
    return end


cdef bint _is(const char* at, const char* end, const char* name, Py_ssize_t size) noexcept nogil:
    """Is the string at `at` that name, written without escapes?"""
    return end - at > size + 1 and memcmp(at + 1, name, size) == 0 and at[size + 1] == 34


cdef Py_ssize_t _texts(const char* at, const char* end, const char* text, int64_t* spans,
                       Py_ssize_t count) noexcept nogil:
    """Spans of the message texts in the array at `at`: `content`, or the `text` of its parts."""
    cdef int depth = 0
    cdef bint wanted, is_content, in_content = False
    cdef const char* stop
    while at < end:
        if at[0] == 123 or at[0] == 91:
            depth += 1
            at += 1
        elif at[0] == 125 or at[0] == 93:
            depth -= 1
            at += 1
            if depth == 0:
                return count
        elif at[0] != 34:
            at += 1
        else:
            stop = _string_end(at, end)
            # Messages are at depth 2, content parts at depth 4, where other members have their objects too.
            is_content = depth == 2 and _is(at, end, b"content", 7)
            wanted = is_content or (depth == 2 and _is(at, end, b"reasoning_content", 17)) or \
                (depth == 4 and in_content and _is(at, end, b"text", 4))
            at = _blanks(stop, end)
            if at < end and at[0] == 58:
                at = _blanks(at + 1, end)
                if depth == 2:
                    in_content = is_content and at < end and at[0] == 91
                if at < end and at[0] == 34:
                    stop = _string_end(at, end)
                    if wanted and stop - at > 2 and count < _MAX_SPANS:
                        spans[2 * count] = at + 1 - text
                        spans[2 * count + 1] = stop - 1 - text
                        count += 1
                    at = stop
    return count


cdef Py_ssize_t _find(const char* text, Py_ssize_t length, const char* member, Py_ssize_t size, bint in_messages,
                      int64_t* spans) noexcept nogil:
    """Write the spans of the prompt that is the member of that name; how many there are."""
    cdef const char* end = text + length
    cdef const char* at = _blanks(text, end)
    cdef const char* stop
    cdef bint found
    if at >= end or at[0] != 123:
        return 0
    at += 1
    while at < end:
        at = _blanks(at, end)
        if at >= end or at[0] != 34:
            return 0
        stop = _string_end(at, end)
        found = _is(at, end, member, size)
        at = _blanks(stop, end)
        if at >= end or at[0] != 58:
            return 0
        at = _blanks(at + 1, end)
        if found:
            break
        at = _blanks(_value_end(at, end), end)
        if at >= end or at[0] != 44:
            return 0
        at += 1
    else:
        return 0
    if at < end and at[0] == 91 and in_messages:
        return _texts(at, end, text, spans, 0)
    stop = _value_end(at, end)
    if stop - at == 4 and memcmp(at, b"null", 4) == 0:
        return 0
    if at < end and at[0] == 34:                                 # without its quotes: a longer text begins the same
        at += 1
        stop -= 1
    spans[0] = at - text
    spans[1] = stop - text
    return 1 if stop > at else 0


def prompt_spans(bytes body not None, bytes member not None):
    """Spans of the prompt as int64 pairs (start, end), one after the other in a bytes object; None when
    there is none. `member`: where the prompt stands; the texts of messages, any other value as a whole."""
    cdef int64_t spans[2 * _MAX_SPANS]
    cdef Py_ssize_t count, length = PyBytes_GET_SIZE(body), size = PyBytes_GET_SIZE(member)
    cdef const char* text = PyBytes_AS_STRING(body)
    cdef const char* name = PyBytes_AS_STRING(member)
    cdef bint in_messages = member == b"messages"
    if length < _LARGE:
        count = _find(text, length, name, size, in_messages, spans)
    else:
        with nogil:
            count = _find(text, length, name, size, in_messages, spans)
    if not count:
        return None
    return PyBytes_FromStringAndSize(<char*>spans, 2 * count * sizeof(int64_t))


def first_spans(bytes spans not None, int64_t most):
    """The spans of the first `most` bytes that they cover."""
    cdef const int64_t* pairs = <const int64_t*>PyBytes_AS_STRING(spans)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(spans) // 16, i
    cdef bytes cut
    for i in range(count):
        if pairs[2 * i + 1] - pairs[2 * i] > most:
            cut = PyBytes_FromStringAndSize(<const char*>pairs, 16 * (i + 1))
            (<int64_t*>PyBytes_AS_STRING(cut))[2 * i + 1] = pairs[2 * i] + most
            return cut
        most -= pairs[2 * i + 1] - pairs[2 * i]
    return spans


def spans_size(bytes spans not None):
    """How many bytes the spans cover."""
    cdef const int64_t* pairs = <const int64_t*>PyBytes_AS_STRING(spans)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(spans) // 16, i
    cdef int64_t size = 0
    for i in range(count):
        size += pairs[2 * i + 1] - pairs[2 * i]
    return size
