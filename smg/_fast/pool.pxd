from libc.stdint cimport uint32_t, uint64_t


cdef enum:
    KEPT_HEAD = 0      # heads of the two rings of records: those used again, and those used once
    NEW_HEAD = 1
    FIRST = 2          # the first number a record can have
    CHUNK_BITS = 10
    CHUNK = 1 << CHUNK_BITS
    BUCKET_BITS = 12
    BUCKETS = 1 << BUCKET_BITS


# What every record begins with.
cdef struct Record:
    uint32_t older     # next in its ring
    uint32_t newer
    uint32_t mark      # the set of its holders * 2, + 1 in the ring of those used again
    uint32_t next      # in its bucket, or in the list of free records
    uint64_t key


cdef class Pool:
    cdef readonly Py_ssize_t limit       # records at most
    cdef readonly Py_ssize_t count       # records in use
    cdef readonly Py_ssize_t kept        # of these, used again
    cdef readonly Py_ssize_t bytes       # taken from the system
    cdef uint32_t top                    # numbers from here on were never in use
    cdef size_t _record_bytes
    cdef char** _chunks
    cdef Py_ssize_t _chunk_count
    cdef Py_ssize_t _chunk_limit
    cdef uint32_t _free
    cdef uint32_t** _buckets
    cdef Py_ssize_t _bucket_chunks
    cdef Py_ssize_t _bucket_limit
    cdef uint32_t _bucket_count
    cdef uint32_t _low_mask              # of the largest power of two that is not above the bucket count
    cdef uint32_t _keyed
    cdef uint64_t _seed
    cdef uint64_t _factor

    cpdef void clear(self) noexcept
    cdef void _shrink(self, Py_ssize_t left) noexcept
    cdef Py_ssize_t _records_in(self, Py_ssize_t chunk) noexcept
    cdef bint _grow(self) noexcept

    cdef bint is_full(self) noexcept
    cdef uint32_t take(self) noexcept
    cdef void drop(self, uint32_t number) noexcept

    cdef void push(self, uint32_t number, uint32_t after) noexcept
    cdef void chain(self, uint32_t number, uint32_t after) noexcept
    cdef void settle(self, uint32_t first, uint32_t last, uint32_t after) noexcept
    cdef void touch(self, uint32_t number, uint32_t after) noexcept
    cdef void spare(self, uint32_t number) noexcept
    cdef uint32_t victim(self) noexcept

    cdef uint32_t find(self, uint64_t key) noexcept
    cdef void enter(self, uint32_t number) noexcept
    cdef void leave(self, uint32_t number) noexcept
    cdef void _split_bucket(self) noexcept
    cdef uint32_t* _bucket(self, uint64_t key) noexcept


cdef inline Record* record(Pool pool, uint32_t number) noexcept:
    return <Record*>(pool._chunks[number >> CHUNK_BITS] + (number & (CHUNK - 1)) * pool._record_bytes)
