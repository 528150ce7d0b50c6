"""HTTP/1 heads: strict parsing after RFC 9112, known headers in slots, the rest as received.

What is ambiguous is refused, never repaired: a request head that two parsers could read in two
ways must not reach a worker (request smuggling).
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memchr, memcmp, memcpy


cdef extern from *:
    """
    #define _GNU_SOURCE 1
    #include <string.h>
    /* 1: token character (RFC 9110 5.6.2), 2: allowed in a field value, 4: allowed in a target, 8: in Host */
    static unsigned char smg_kind[256];
    static void smg_fill_kinds(void) {
        const char *more = "!#$%&'*+-.^_`|~";
        int c;
        for (c = 0; c < 256; c++) {
            unsigned char k = 0;
            int alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
            if (alnum || (c && strchr(more, c))) k |= 1;
            if (c == '\\t' || (c >= 0x20 && c != 0x7f)) k |= 2;
            if (c > 0x20 && c < 0x7f) k |= 4;
            if (alnum || (c && strchr("-._~!$&'()*+,;=%:[]", c))) k |= 8;
            smg_kind[c] = k;
        }
    }
    static inline int smg_same(const char *data, const char *lower, size_t n) {
        size_t i;
        for (i = 0; i < n; i++) {
            unsigned char c = (unsigned char)data[i];
            if (c >= 'A' && c <= 'Z') c |= 0x20;
            if (c != (unsigned char)lower[i]) return 0;
        }
        return 1;
    }
    """
    unsigned char smg_kind[256]
    void smg_fill_kinds() noexcept
    int smg_same(const char* data, const char* lower, size_t n) noexcept
    void* memmem(const void* haystack, size_t n, const void* needle, size_t m) noexcept

smg_fill_kinds()

MAX_HEAD_BYTES = 65536
MAX_HEADERS = 100

cdef enum:
    _MAX_HEADERS = 100
    _TOKEN = 1
    _VALUE = 2
    _TARGET = 4
    _HOST = 8


class HeadError(ValueError):
    """A head that is refused; `status` is the answer it gets (from a worker: none)."""

    def __init__(self, int status, str message):
        super().__init__(message)
        self.status = status


cdef bint may_become_head(bytes data, Py_ssize_t at, Py_ssize_t scanned) except -1:
    """Is there still hope for the partial head at `at`, of which so much was looked at before? Its line ends tell
    early: a bare LF gives it up."""
    cdef Py_ssize_t end = max(at, at + scanned - 1)
    cdef unsigned char first = data[at]
    if not (65 <= first <= 90 or 97 <= first <= 122 or first in b"!#$%&'*+-.^_`|~0123456789"):
        return False
    while True:
        end = data.find(b"\n", end)
        if end < 0:
            return True
        if end == at or data[end - 1] != 13:
            return False
        end += 1


cdef Py_ssize_t head_end(const char* data, Py_ssize_t size, Py_ssize_t start) noexcept:
    """Position after the empty line that ends a head, looked for from `start`; 0 when it is not there."""
    cdef const char* found
    if start > 3:
        start -= 3
    else:
        start = 0
    found = <const char*>memmem(data + start, size - start, b"\r\n\r\n", 4)
    return found - data + 4 if found != NULL else 0


@cython.final
@cython.freelist(64)
cdef class RequestHead:
    """A client's request head. Look-ups take the name in lower case and give the first value."""

    def __dealloc__(self):
        PyMem_Free(self._lines)

    cpdef bytes get(self, bytes name):
        cdef Py_ssize_t i, size = len(name)
        cdef const char* data = PyBytes_AS_STRING(self.raw)
        cdef const char* wanted = PyBytes_AS_STRING(name)
        for i in range(self._count):
            if <Py_ssize_t>self._lines[i].name_len == size and smg_same(data + self._lines[i].name, wanted, size):
                return PyBytes_FromStringAndSize(data + self._lines[i].value, self._lines[i].value_len)
        return None

    cpdef bytes first_of(self, tuple names):
        """The first value that is not empty, of the first of these headers that has one."""
        for name in names:
            value = self.get(<bytes>name)
            if value:
                return value
        return None

    def items(self):
        """All header lines as (name, value), as received."""
        cdef Py_ssize_t i
        cdef const char* data = PyBytes_AS_STRING(self.raw)
        return [
            (data[self._lines[i].name:self._lines[i].name + self._lines[i].name_len],
             data[self._lines[i].value:self._lines[i].value + self._lines[i].value_len])
            for i in range(self._count)
        ]


@cython.final
@cython.freelist(64)
cdef class ResponseHead:
    """A worker's response head, with its hop-by-hop and gateway-owned headers taken out."""


cdef int _refuse(int status, str message) except -1:
    raise HeadError(status, message)


cdef Py_ssize_t _split_lines(const char* data, Py_ssize_t start, Py_ssize_t size, Line* lines) except -1:
    """Cut the header lines from `start` to the empty line; gives their number."""
    cdef Py_ssize_t at = start, count = 0, begin, stop
    cdef unsigned char c
    while True:
        if data[at] == 13:                                      # the empty line: the caller saw CR LF CR LF
            if at + 2 != size or data[at + 1] != 10:
                _refuse(400, "Malformed header line")
            return count
        if count == _MAX_HEADERS:
            _refuse(431, "Too many header fields")
        begin = at
        while smg_kind[<unsigned char>data[at]] & _TOKEN:
            at += 1
        if at == begin or data[at] != 58:                       # also folded lines and blanks before the colon
            _refuse(400, "Malformed header field name")
        lines[count].name = begin
        lines[count].name_len = at - begin
        at += 1
        while data[at] == 32 or data[at] == 9:
            at += 1
        begin = at
        while True:
            c = data[at]
            if smg_kind[c] & _VALUE:
                at += 1
            elif c == 13 and data[at + 1] == 10:
                break
            else:
                _refuse(400, "Invalid character in a header field value")
        stop = at
        while stop > begin and (data[stop - 1] == 32 or data[stop - 1] == 9):
            stop -= 1
        lines[count].value = begin
        lines[count].value_len = stop - begin
        count += 1
        at += 2


cdef bint _has_token(const char* data, Py_ssize_t size, const char* lower, Py_ssize_t wanted) noexcept:
    """Is `lower` one of the comma-separated tokens?"""
    cdef Py_ssize_t at = 0, begin, stop
    while at < size:
        while at < size and (data[at] == 32 or data[at] == 9 or data[at] == 44):
            at += 1
        begin = at
        while at < size and data[at] != 44:
            at += 1
        stop = at
        while stop > begin and (data[stop - 1] == 32 or data[stop - 1] == 9):
            stop -= 1
        if stop - begin == wanted and smg_same(data + begin, lower, wanted):
            return True
    return False


cdef inline bint _named(const char* data, Line* line, const char* lower, Py_ssize_t size) noexcept:
    return line.name_len == <uint32_t>size and smg_same(data + line.name, lower, size)


# What the fields of a head say of the message's length and of its connection.
cdef struct Framing:
    int refusal            # status of the error when they are wrong
    long long length       # -1: not said
    int codings
    bint close
    bint keep


cdef bint _reads_framing(const char* data, Line* line, Framing* framing) except -1:
    """Is the line one of these fields? Then it is read."""
    cdef const char* value = data + line.value
    cdef Py_ssize_t size = line.value_len
    if _named(data, line, b"content-length", 14):
        if framing.length >= 0:
            _refuse(framing.refusal, "More than one Content-Length")
        framing.length = _length(value, size, framing.refusal)
        return True
    if _named(data, line, b"transfer-encoding", 17):
        framing.codings += 1
        if framing.codings > 1 or size != 7 or not smg_same(value, b"chunked", 7):
            _refuse(framing.refusal, "Unsupported Transfer-Encoding")
        return True
    if _named(data, line, b"connection", 10):
        framing.close = framing.close or _has_token(value, size, b"close", 5)
        framing.keep = framing.keep or _has_token(value, size, b"keep-alive", 10)
        return True
    return False


cdef long long _length(const char* data, Py_ssize_t size, int refusal) except -2:
    """A Content-Length value; -2 is never given."""
    cdef long long total = 0
    cdef Py_ssize_t i
    if size < 1 or size > 18:
        _refuse(refusal, "Invalid Content-Length")
    for i in range(size):
        if data[i] < 48 or data[i] > 57:
            _refuse(refusal, "Invalid Content-Length")
        total = total * 10 + (data[i] - 48)
    return total


cdef bint _goes_on(Framing* framing, int minor) except -1:
    """May another message follow on the connection?"""
    if framing.codings and framing.length >= 0:
        _refuse(framing.refusal, "Content-Length together with Transfer-Encoding")
    return not framing.close if minor == 1 else framing.keep and not framing.close


cdef bint _is_forwarded(const char* data, Line* line) noexcept:
    """The allow-list of the specification, but X-Request-ID, which the gateway may replace."""
    cdef const char* name = data + line.name
    cdef uint32_t n = line.name_len
    if n == 10:
        return smg_same(name, b"tracestate", 10)
    if n == 11:
        return smg_same(name, b"traceparent", 11)
    if n >= 13 and smg_same(name, b"x-request-id-", 13):
        return True
    if n == 13:
        return smg_same(name, b"authorization", 13)
    if n == 14:
        return smg_same(name, b"anthropic-beta", 14)
    if n == 16:
        return smg_same(name, b"x-correlation-id", 16)
    return n == 17 and (smg_same(name, b"anthropic-version", 17) or smg_same(name, b"x-smg-routing-key", 17))


cdef RequestHead parse_request(const char* data, Py_ssize_t size):
    """The head in data[:size], which ends with its empty line. Raises `HeadError`."""
    cdef Line lines[_MAX_HEADERS]
    cdef Line* line
    cdef Py_ssize_t at = 0, begin, target_end, path_end, count, i
    cdef const char* value
    cdef const char* query
    cdef int hosts = 0
    cdef Framing framing = Framing(400, -1, 0, False, False)
    cdef RequestHead head = RequestHead.__new__(RequestHead)
    cdef bytes forward = None, text
    while smg_kind[<unsigned char>data[at]] & _TOKEN:
        at += 1
    if at == 0 or at > 32 or data[at] != 32:
        _refuse(400, "Malformed request line")
    head.method = b"POST" if at == 4 and memcmp(data, b"POST", 4) == 0 else PyBytes_FromStringAndSize(data, at)
    at += 1
    begin = at
    while smg_kind[<unsigned char>data[at]] & _TARGET:
        at += 1
    target_end = at
    if target_end == begin:
        _refuse(400, "Malformed request target")
    if data[at] == 13:
        _refuse(400, "HTTP/0.9 is not supported")
    if data[at] != 32 or size - at < 11 or memcmp(data + at + 1, b"HTTP/", 5) != 0:
        _refuse(400, "Malformed request line")
    if data[at + 6] < 48 or data[at + 6] > 57 or data[at + 7] != 46 or data[at + 8] < 48 or data[at + 8] > 57:
        _refuse(400, "Malformed HTTP version")
    if data[at + 9] != 13 or data[at + 10] != 10:
        _refuse(400, "Malformed request line")
    if data[at + 6] != 49 or data[at + 8] > 49:
        _refuse(505, "Only HTTP/1.0 and HTTP/1.1 are supported")
    head.minor = data[at + 8] - 48
    count = _split_lines(data, at + 11, size, lines)
    for i in range(count):
        line = &lines[i]
        value = data + line.value
        if _named(data, line, b"host", 4):
            hosts += 1
            for at in range(line.value_len):
                if not smg_kind[<unsigned char>value[at]] & _HOST:
                    _refuse(400, "Invalid Host")
        elif _reads_framing(data, line, &framing):
            continue
        elif _named(data, line, b"expect", 6):
            if line.value_len != 12 or not smg_same(value, b"100-continue", 12):
                _refuse(417, "Unsupported expectation")
            head.expects_continue = head.minor == 1
        elif _named(data, line, b"upgrade", 7):
            head.upgrade = True
        elif _is_forwarded(data, line):
            at = line.value + line.value_len
            text = PyBytes_FromStringAndSize(data + line.name, at - line.name) + b"\r\n"
            forward = text if forward is None else forward + text
    if hosts > 1 or (hosts == 0 and head.minor == 1):
        _refuse(400, "Exactly one Host is required")
    head.content_length = framing.length
    head.chunked = framing.codings > 0
    head.keep_alive = _goes_on(&framing, head.minor)
    if head.chunked and head.minor == 0:
        _refuse(400, "Transfer-Encoding in HTTP/1.0")
    head.forward = forward if forward is not None else b""
    # An absolute target names the authority again; the path is what counts.
    if data[begin] != 47:
        begin = _skip_authority(data, begin, target_end)
    query = <const char*>memchr(data + begin, 63, target_end - begin)
    path_end = query - data if query != NULL else target_end
    head.path = PyBytes_FromStringAndSize(data + begin, path_end - begin) if path_end > begin else b"/"
    head.query = PyBytes_FromStringAndSize(query + 1, data + target_end - query - 1) if query != NULL else None
    head.raw = PyBytes_FromStringAndSize(data, size)
    head._count = count
    if count:
        head._lines = <Line*>PyMem_Malloc(count * sizeof(Line))
        if head._lines == NULL:
            raise MemoryError
        memcpy(head._lines, lines, count * sizeof(Line))
    return head


cdef Py_ssize_t _skip_authority(const char* data, Py_ssize_t begin, Py_ssize_t end) except -1:
    cdef Py_ssize_t size = end - begin
    if size == 1 and data[begin] == 42:                          # OPTIONS *
        return begin
    if size > 7 and smg_same(data + begin, b"http://", 7):
        begin += 7
    elif size > 8 and smg_same(data + begin, b"https://", 8):
        begin += 8
    else:
        _refuse(400, "Malformed request target")
    if begin == end or data[begin] == 47 or data[begin] == 63:
        _refuse(400, "Malformed request target")
    while begin < end and data[begin] != 47 and data[begin] != 63:
        begin += 1
    return begin


cdef bint _is_kept(const char* data, Line* line) noexcept:
    """Does a worker's header line go on to the client?"""
    cdef const char* name = data + line.name
    cdef uint32_t n = line.name_len
    if n == 10:
        return not smg_same(name, b"connection", 10) and not smg_same(name, b"keep-alive", 10)
    if n == 14:
        return not smg_same(name, b"content-length", 14)
    if n == 17:
        return not smg_same(name, b"transfer-encoding", 17)
    if n == 16:
        return not smg_same(name, b"x-smg-error-code", 16) and not smg_same(name, b"proxy-connection", 16)
    if n == 12:
        return not smg_same(name, b"x-request-id", 12)
    if n == 22:
        return not smg_same(name, b"x-smg-routed-worker-id", 22)
    if n == 7:
        return not smg_same(name, b"trailer", 7) and not smg_same(name, b"upgrade", 7)
    return not (n == 2 and smg_same(name, b"te", 2))


cdef ResponseHead parse_response(const char* data, Py_ssize_t size):
    """The response head in data[:size], which ends with its empty line. Raises `HeadError`."""
    cdef Line lines[_MAX_HEADERS]
    cdef Line* line
    cdef Py_ssize_t at, count, i, used = 0, span
    cdef Framing framing = Framing(502, -1, 0, False, False)
    cdef bint nominates = False, packed = False
    cdef const char* value
    cdef ResponseHead head = ResponseHead.__new__(ResponseHead)
    cdef bytes kept
    cdef char* out
    if size < 16 or memcmp(data, b"HTTP/1.", 7) != 0 or data[7] < 48 or data[7] > 57 or data[8] != 32:
        _refuse(502, "Malformed status line")
    head.minor = 0 if data[7] == 48 else 1
    for i in range(9, 12):
        if data[i] < 48 or data[i] > 57:
            _refuse(502, "Malformed status line")
        head.status = head.status * 10 + (data[i] - 48)
    at = 12
    if data[at] == 32:
        at += 1
        while smg_kind[<unsigned char>data[at]] & _VALUE:
            at += 1
    if head.status < 100 or data[at] != 13 or data[at + 1] != 10:
        _refuse(502, "Malformed status line")
    head.reason = PyBytes_FromStringAndSize(data + 13, at - 13) if at > 13 else b""
    count = _split_lines(data, at + 2, size, lines)
    kept = PyBytes_FromStringAndSize(NULL, size)
    out = PyBytes_AS_STRING(kept)
    for i in range(count):
        if _named(data, &lines[i], b"connection", 10):
            nominates = True
    for i in range(count):
        line = &lines[i]
        value = data + line.value
        if not _is_kept(data, line):
            _reads_framing(data, line, &framing)
            continue
        if nominates and _is_nominated(data, lines, count, line):
            continue
        if _named(data, line, b"content-type", 12) and line.value_len >= 17:
            head.event_stream = smg_same(value, b"text/event-stream", 17)
        elif _named(data, line, b"content-encoding", 16):
            packed = packed or line.value_len != 8 or not smg_same(value, b"identity", 8)
        span = line.value + line.value_len - line.name
        memcpy(out + used, data + line.name, span)
        out[used + span] = 13
        out[used + span + 1] = 10
        used += span + 2
    head.content_length = framing.length
    head.chunked = framing.codings > 0
    head.keep_alive = _goes_on(&framing, head.minor)
    head.event_stream = head.event_stream and not packed
    head.lines = kept[:used]
    return head


cdef bint _is_nominated(const char* data, Line* lines, Py_ssize_t count, Line* line) noexcept:
    """Is the line's name listed in a Connection field, and so meant for this hop only?"""
    cdef char lower[64]
    cdef Py_ssize_t i
    if line.name_len > 64:
        return False
    for i in range(line.name_len):
        lower[i] = data[line.name + i]
        if 65 <= lower[i] <= 90:
            lower[i] |= 0x20
    for i in range(count):
        if _named(data, &lines[i], b"connection", 10) \
                and _has_token(data + lines[i].value, lines[i].value_len, lower, line.name_len):
            return True
    return False


def read_request_head(bytes data):
    """Parse a whole request head, empty line included; what the ingress does, for tests."""
    if head_end(data, len(data), 0) != len(data):
        raise HeadError(400, "Malformed header line")
    return parse_request(data, len(data))


def read_response_head(bytes data):
    """Parse a whole response head, empty line included."""
    if head_end(data, len(data), 0) != len(data):
        raise HeadError(502, "Malformed header line")
    return parse_response(data, len(data))
