"""The chunked coding of RFC 9112 section 7.1, read strictly: sizes of at most 16 hexadecimal digits,
CR LF after sizes and data, extensions skipped, trailers checked for shape and dropped.
"""
cimport cython
from libc.string cimport strchr

cdef enum:
    _SIZE            # reading the digits of a chunk size
    _EXTENSION       # after the digits, up to the line's end
    _SIZE_LF         # the LF that ends a size line
    _DATA            # inside a chunk
    _DATA_CR         # CR after a chunk's data
    _DATA_LF         # LF after a chunk's data
    _TRAILER         # start of a trailer line, or the CR of the empty line
    _TRAILER_NAME    # inside the name of a trailer
    _TRAILER_LINE    # behind its colon
    _TRAILER_LF      # LF that ends a trailer line
    _LAST_LF         # LF of the final empty line
    _DONE

    _MAX_EXTRA = 16384   # bytes of extensions, or of trailers, in one body


cdef bint _in_name(unsigned char c) noexcept:
    """Is it a token character (RFC 9110 5.6.2)?"""
    return 48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or (c != 0 and strchr("!#$%&'*+-.^_`|~", c) != NULL)


@cython.final
cdef class ChunkReader:
    """Walks over a chunked body as it arrives; call `step` until it asks for more or ends."""

    def __init__(self):
        self.reset()

    cdef void reset(self) noexcept:
        self._state = _SIZE
        self._digits = 0
        self._extra = 0
        self._left = 0
        self.plain = True
        self.position = 0

    cdef bint at_boundary(self) noexcept:
        """Between two chunks, nothing of the next one seen."""
        return self._state == _SIZE and self._digits == 0

    cdef Step step(self, const char* data, Py_ssize_t size) noexcept:
        """Read on in data[position:size]; the caller sets `position` to 0 for new data."""
        cdef Py_ssize_t at = self.position
        cdef unsigned char c
        cdef int digit
        while at < size:
            c = data[at]
            if self._state == _DATA:
                self.piece = at
                self.piece_size = size - at
                if <unsigned long long>self.piece_size >= self._left:
                    self.piece_size = <Py_ssize_t>self._left
                    self._state = _DATA_CR
                self._left -= self.piece_size
                self.position = at + self.piece_size
                return STEP_DATA
            at += 1
            if self._state == _SIZE:
                if 48 <= c <= 57:
                    digit = c - 48
                elif 97 <= c <= 102:
                    digit = c - 87
                elif 65 <= c <= 70:
                    digit = c - 55
                elif self._digits == 0:
                    return STEP_BAD
                elif c == 13:
                    self._state = _SIZE_LF
                    continue
                elif c == 59 or c == 32 or c == 9:
                    self.plain = False
                    self._state = _EXTENSION
                    continue
                else:
                    return STEP_BAD
                self._digits += 1
                # The top bit stays free, so that the count never overflows a signed size.
                if self._digits > 16 or self._left >> 59:
                    return STEP_BAD
                self._left = self._left * 16 + digit
            elif self._state == _SIZE_LF:
                if c != 10:
                    return STEP_BAD
                self._digits = 0
                self._state = _DATA if self._left else _TRAILER
            elif self._state == _DATA_CR:
                if c != 13:
                    return STEP_BAD
                self._state = _DATA_LF
            elif self._state == _DATA_LF:
                if c != 10:
                    return STEP_BAD
                self._state = _SIZE
            elif self._state == _TRAILER:
                if c == 13:
                    self._state = _LAST_LF
                elif not _in_name(c):
                    return STEP_BAD
                else:
                    self.plain = False
                    self._state = _TRAILER_NAME
            elif self._state == _TRAILER_NAME:
                self._extra += 1
                if c == 58:
                    self._state = _TRAILER_LINE
                elif self._extra > _MAX_EXTRA or not _in_name(c):
                    return STEP_BAD
            elif self._state == _LAST_LF:
                if c != 10:
                    return STEP_BAD
                self._state = _DONE
                self.position = at
                return STEP_END
            elif self._state == _EXTENSION or self._state == _TRAILER_LINE:
                self._extra += 1
                if self._extra > _MAX_EXTRA or c == 10 or c == 0:
                    return STEP_BAD
                if c == 13:
                    self._state = _SIZE_LF if self._state == _EXTENSION else _TRAILER_LF
            elif self._state == _TRAILER_LF:
                if c != 10:
                    return STEP_BAD
                self._state = _TRAILER
            else:
                return STEP_BAD
        self.position = at
        return STEP_MORE

    def feed(self, bytes data):
        """Payload pieces in `data`, whether the body ended, and what stands behind its end.

        Raises ValueError when it is not the chunked coding.
        """
        cdef const char* text = data
        cdef Step got
        pieces = []
        self.position = 0
        while True:
            got = self.step(text, len(data))
            if got == STEP_DATA:
                pieces.append(data[self.piece:self.piece + self.piece_size])
            elif got == STEP_MORE:
                return pieces, False, b""
            elif got == STEP_END:
                return pieces, True, data[self.position:]
            else:
                raise ValueError("not the chunked coding")
