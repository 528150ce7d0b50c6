cdef enum Step:
    STEP_DATA          # a piece of payload: data[piece:piece + piece_size]
    STEP_MORE          # everything given was read, the body goes on
    STEP_END           # the body is complete; `position` stands behind it
    STEP_BAD           # not the chunked coding


cdef class ChunkReader:
    cdef int _state
    cdef int _digits
    cdef int _extra
    cdef unsigned long long _left
    cdef bint plain            # since `start_run`: sizes without extensions, no trailers
    cdef Py_ssize_t position   # how far the last `step` has read
    cdef Py_ssize_t piece
    cdef Py_ssize_t piece_size

    cdef void reset(self) noexcept
    cdef bint at_boundary(self) noexcept
    cdef Step step(self, const char* data, Py_ssize_t size) noexcept
