from libc.stdint cimport uint32_t


cdef struct Line:
    uint32_t name
    uint32_t name_len
    uint32_t value
    uint32_t value_len


cdef class RequestHead:
    cdef readonly bytes raw              # from the request line to the empty line, both included
    cdef readonly bytes method
    cdef readonly bytes path             # without the query
    cdef readonly bytes query            # without the question mark; None when there is none
    cdef readonly int minor              # of HTTP/1.x
    cdef readonly long long content_length   # -1 without the header
    cdef readonly bint chunked
    cdef readonly bint keep_alive
    cdef readonly bint expects_continue
    cdef readonly bint upgrade
    cdef readonly bytes forward          # header lines that go to a worker as received
    cdef Line* _lines
    cdef Py_ssize_t _count

    cpdef bytes get(self, bytes name)
    cpdef bytes first_of(self, tuple names)


cdef class ResponseHead:
    cdef readonly int status
    cdef readonly int minor
    cdef readonly bytes reason
    cdef readonly bytes lines            # header lines that go to the client as received
    cdef readonly long long content_length   # -1 without the header
    cdef readonly bint chunked
    cdef readonly bint keep_alive
    cdef readonly bint event_stream      # of plain text: nothing can be put among compressed bytes


cdef RequestHead parse_request(const char* data, Py_ssize_t size)
cdef ResponseHead parse_response(const char* data, Py_ssize_t size)
cdef Py_ssize_t head_end(const char* data, Py_ssize_t size, Py_ssize_t start) noexcept
cdef bint may_become_head(bytes data, Py_ssize_t at, Py_ssize_t scanned) except -1
