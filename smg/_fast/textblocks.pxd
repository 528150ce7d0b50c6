from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum:
    SIZE_MASK = 1023             # a key's low bits are its block's size - 1


# Reads the bytes of several spans as one text, block by block.
cdef struct Text:
    const uint8_t* body
    const int64_t* spans
    Py_ssize_t span_count
    Py_ssize_t span              # the one being read
    Py_ssize_t at                # in the body
    Py_ssize_t left              # bytes of the text not yet read
    Py_ssize_t done
    Py_ssize_t size              # of the last block
    uint64_t hash                # of all up to its end
    uint8_t gathered[1024]


# The buffers of one call, for as long as it lasts.
cdef class Opened:
    cdef Py_buffer body
    cdef Py_buffer spans
    cdef Text text


cdef void draw_secrets(uint64_t* secrets)
# Read on by one block, and give its key.
cdef uint64_t next_block(Text* text, const uint64_t* secrets) noexcept
