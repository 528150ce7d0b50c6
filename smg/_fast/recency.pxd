from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from smg._fast.pool cimport Pool, Record


# A block of a text at a worker.
cdef struct Given:
    Record base
    int64_t stamp                # of its last use there


# A text's blocks: the hash of all up to a block's end, and where it ends.
cdef class Path:
    cdef readonly Py_ssize_t size        # bytes
    cdef readonly Py_ssize_t count       # blocks
    cdef uint64_t* _hashes
    cdef int32_t* _ends


cdef class Recency:
    cdef Pool _pool
    cdef uint64_t _secrets[8]

    cdef Py_ssize_t _reach(self, Path path, uint64_t worker, int64_t floor, Py_ssize_t least) noexcept
    cdef bint _make_room(self, uint32_t at) noexcept
    cdef void _evict(self, uint32_t number) noexcept
