from libc.stdint cimport uint32_t


cdef enum:
    MAX_TOKENS = 512         # of a hint
    MAX_HINT_BYTES = 4096

cdef Py_ssize_t read_ids(const char* text, Py_ssize_t size, uint32_t* ids) noexcept
cdef Py_ssize_t head_end(const char* body, Py_ssize_t at, Py_ssize_t end, Py_ssize_t* characters) noexcept
